echo set up >/app/log
