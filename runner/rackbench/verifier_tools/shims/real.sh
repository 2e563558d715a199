# The first program of a name on PATH that is not one of ours: real_program NAME OUR_FOLDER
real_program() {
  rest=$PATH:
  while [ -n "$rest" ]; do
    folder=${rest%%:*}
    rest=${rest#*:}
    [ "$folder" = "$2" ] && continue
    if [ -f "${folder:-.}/$1" ] && [ -x "${folder:-.}/$1" ]; then
      printf '%s\n' "${folder:-.}/$1"
      return 0
    fi
  done
  return 1
}
