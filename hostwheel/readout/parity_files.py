"""What is compared: GGUF files, and the model that transformers reads."""

import logging
import os
import re
from ctypes import create_string_buffer
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostwheel.errors import BadInput
from hostwheel.readout.gguf_file import check_magic, not_loaded
from hostwheel.readout.library import library

FILE_TYPES = ("LLAMA_FTYPE_MOSTLY_", "LLAMA_FTYPE_ALL_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gguf:
    """A GGUF file: how many weights it has, and in which format most of them are."""

    path: Path
    parameters: int
    weights: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What transformers reads: a folder of its own, or a GGUF (`file`) in a folder."""

    folder: Path
    file: str | None

    @property
    def name(self) -> str:
        """To be shown: without where it lies."""
        return self.file or self.folder.resolve().name


def read_gguf(path: Path) -> Gguf:
    """The head of a GGUF, by llama.cpp. Raises BadInput where it is none."""
    check_magic(path)
    lib = library()
    logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)  # as verbose=False has it
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise BadInput(not_loaded(path))
    try:
        parameters = int(lib.llama_model_n_params(model))
        return Gguf(path=path, parameters=parameters, weights=file_type(lib, model))
    finally:
        lib.llama_model_free(model)


def file_type(lib: Any, model: Any) -> str:
    """`general.file_type` by llama.cpp's name, for example Q8_0."""
    buffer = create_string_buffer(16)
    lib.llama_model_meta_val_str(model, b"general.file_type", buffer, len(buffer))
    number = buffer.value.decode()
    names = [name for name, value in vars(lib).items() if str(value) == number]
    known = [str(name) for name in names if name.startswith(FILE_TYPES)]
    return re.sub("|".join(FILE_TYPES), "", known[0]) if known else "unknown"


def find_source(model: Path) -> Source:
    """A local folder or GGUF; nothing is looked up on a hub. Raises BadInput."""
    if model.is_dir():
        if not (model / "config.json").is_file():
            raise BadInput(f"{model}: no config.json in it, so transformers cannot read it")
        return Source(folder=model, file=None)
    if not model.exists():
        raise BadInput(
            f"{model}: no such folder or file. --model is a folder as save_pretrained writes it, "
            "or a GGUF; a model of a hub has to be downloaded first (hf download NAME)"
        )
    check_magic(model)
    return Source(folder=model.parent, file=model.name)
