"""Where our wheels hold what they say of themselves."""

IN_PACKAGE = "hostwheel/build-info.json"  # below the folder llama_cpp
BUILD_INFO = f"llama_cpp/{IN_PACKAGE}"
