//! The one error type of the crate. Codes are those of `include/tessera_text.h`.

use std::fmt::{self, Write};

/// Longest message, in characters. Templates and files choose what some messages say.
const MAX_MESSAGE: usize = 1000;

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

/// A code and a message for the person who can fix it: one line without control characters.
#[derive(Debug)]
pub struct TextError {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, TextError>;

impl TextError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: one_line(&message.into()) }
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

/// What a caught panic said.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown panic")
}

/// Line ends become spaces, characters that steer a terminal or turn the direction of text are
/// escaped, and what is too long ends with an ellipsis.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(MAX_MESSAGE + 1) {
        match c {
            '\n' | '\r' => line.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(line, "\\u{:04x}", c as u32);
            }
            c if c.is_control() => {
                let _ = write!(line, "\\x{:02x}", c as u32);
            }
            c => line.push(c),
        }
    }
    if let Some((end, _)) = line.char_indices().nth(MAX_MESSAGE) {
        line.truncate(end);
        line.push('\u{2026}');
    }
    line
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_short_printable_line() {
        let message = |text: &str| TextError::argument(text).message;
        assert_eq!(message("a\nb\r\u{1b}[31m\u{9b}\u{202e}é"), "a b \\x1b[31m\\x9b\\u202eé");
        assert_eq!(message(&"é".repeat(MAX_MESSAGE)), "é".repeat(MAX_MESSAGE));
        assert_eq!(message(&"é".repeat(MAX_MESSAGE + 1)), "é".repeat(MAX_MESSAGE) + "\u{2026}");
    }
}
