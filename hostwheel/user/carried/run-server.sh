#!/bin/sh
# Start the installed llama-server. Options are llama-server's own; the bundle's model is taken
# where they name none. install.py puts this file into what it installs: start it there.

here=$(dirname -- "$(readlink -f -- "$0")")
for server in "$here"/llama_cpp/lib/llama-server \
    "$here"/lib/python3.*/site-packages/llama_cpp/lib/llama-server; do
    [ -x "$server" ] && break
done
if [ ! -x "$server" ]; then
    echo "run-server.sh: no llama-server in $here: python install.py --target DIR, then" \
        "DIR/run-server.sh" >&2
    exit 3
fi
for option; do
    case $option in
    -m | --model | --model=* | -hf | --hf-repo | -mu | --model-url | -h | --help | --version)
        exec "$server" "$@"
        ;;
    esac
done
for model in "$here"/models/*.gguf; do
    [ -f "$model" ] && exec "$server" --model "$model" "$@"
done
exec "$server" "$@"
