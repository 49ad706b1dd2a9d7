//! Providers: codecs without I/O, and the one transport that sends.
pub mod failure;
pub mod openai;
pub mod sse;

/// Tokens as the provider reported them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}
