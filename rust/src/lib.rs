//! The text side of Tessera: tokenizers and chat templates.
//!
//! Built into one static library whose C ABI (`ffi`, declared in `include/tessera_text.h`) is all
//! that C++ sees. Tokenization is Hugging Face `tokenizers`, templates are `minijinja`; what this
//! crate adds is a tokenizer built from a GGUF vocabulary, a table of the bytes of every token, and
//! the parts of Python that chat templates rely on.

pub mod error;
pub mod ffi;
pub mod gguf;
pub mod json_dumps;
pub mod pre_tokenizers;
pub mod python;
pub mod template;
pub mod token_bytes;
pub mod tokenizer;
pub mod tokenizer_config;
