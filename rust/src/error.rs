//! The one error type of the crate. Codes are those of `include/tessera_text.h`.

use std::fmt;

/// What went wrong, in the categories of `tessera::ErrorKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    InvalidArgument = 1,
    InvalidArtifact = 2,
    Unsupported = 3,
    ResourceExhausted = 4,
    Internal = 5,
}

/// A code and a one-line message for the person who can fix it.
#[derive(Debug)]
pub struct TextError {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, TextError>;

impl TextError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub fn artifact(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArtifact, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::Unsupported, message)
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TextError {}
