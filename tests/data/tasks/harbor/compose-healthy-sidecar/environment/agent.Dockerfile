FROM rackbench/base:1 AS work
ARG LEVEL
WORKDIR /app
