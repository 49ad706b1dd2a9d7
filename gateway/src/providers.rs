//! Providers: codecs without I/O, and the one transport that sends.
pub mod failure;
pub mod sse;
