set -eu
# As the installer does: old versions had a folder of their own.
case $version in
  0.[0-4].*) default=$HOME/.cargo/bin environment=$HOME/.cargo/env ;;
  *) default=${XDG_BIN_HOME:-$HOME/.local/bin} environment='' ;;
esac
target=${UV_UNMANAGED_INSTALL:-${UV_INSTALL_DIR:-$default}}
environment=${environment:-$target/env}
mkdir -p "$target"
for program in uv uvx; do
  ln -sf "$tools/uv/$program" "$target/$program"
done
if [ -z "${UV_UNMANAGED_INSTALL:-}" ]; then
  cat >"$environment" <<EOF
#!/bin/sh
case ":\${PATH}:" in
  *:"$target":*) ;;
  *) export PATH="$target:\$PATH" ;;
esac
EOF
  printf 'source "%s"\n' "$environment" >"$environment.fish"
fi
echo "uv and uvx were linked into $target from the verifier tools"
