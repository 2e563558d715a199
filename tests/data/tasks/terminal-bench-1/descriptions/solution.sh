touch /app/done
