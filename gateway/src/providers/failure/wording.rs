//! Recognises two refusals that servers put in many words: the prompt is too long, and the content is not allowed.
use super::FailureKind;

/// Codes and types that mean the prompt is too long.
const CONTEXT_CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
];

/// Codes and types that mean the content is not allowed.
const POLICY_CODES: &[&str] = &[
    "content_filter",
    "content_filtered",
    "content_policy",
    "content_policy_violation",
    "contentfilter",
    "data_inspection_failed",
    "invalid_prompt",
    "moderation_blocked",
    "responsibleaipolicyviolation",
];

/// Wordings of a prompt that is too long, in lower case: all parts must occur, in this order. Each needs words about
/// the size, so that a complaint about some field called `context` is not one.
const CONTEXT_WORDINGS: &[&[&str]] = &[
    // OpenAI, vLLM, Mistral, DeepSeek, SGLang
    &["maximum context length"],
    &["exceed", "context window"],
    &["exceed", "context length"],
    &["exceed", "context limit"],
    &["input tokens exceed"],
    &["longer than the maximum model length"],
    &["longer than the model's context length"],
    &["reduce the length of the", "messages"],
    &["reduce the length of the", "prompt"],
    &["maximum prompt length is"],
    // llama.cpp, LM Studio, Ollama
    &["exceeds the available context size"],
    &["context size", "exceeded"],
    &["context length of only"],
    &["greater than the context length"],
    &["context window", "exceed"],
    &["context length exceeded"],
    // Text generation inference
    &["inputs` tokens + `max_new_tokens` must be <="],
    &["`inputs` must have less than", "tokens"],
    // Anthropic
    &["prompt is too long"],
    // Gemini
    &["input token count", "exceed"],
    // Bedrock, Cohere, others
    &["input is too long"],
    &["input too long"],
    &["prompt token count", "exceed"],
    &["number of tokens in the prompt exceed"],
    &["too many tokens", "prompt"],
    &["too many input tokens"],
    &["too many tokens: size limit exceeded"],
    &["too large for model with", "context length"],
    &["exceeded model token limit"],
];

/// Wordings of content that is not allowed, in lower case.
const POLICY_WORDINGS: &[&[&str]] = &[
    &["rejected as a result of", "safety system"],
    &["content management policy"],
    &["content filtering policy"],
    &["violat", "usage polic"],
    &["violat", "content polic"],
    &["flagged", "content polic"],
    &["flagged as potentially violating"],
    &["input was flagged"],
    &["inappropriate content"],
    &["responsible ai policy"],
    &["blocked by", "content filter"],
];

/// What an error's code, type and text say beyond its status.
pub(super) fn kind(status_kind: FailureKind, names: &[&str], text: &str) -> FailureKind {
    let named =
        |codes: &[&str]| names.iter().any(|name| codes.iter().any(|code| name.eq_ignore_ascii_case(code)));
    // Codes are plain statements; only an overload or a refused key is something else whatever the code says.
    if matches!(status_kind, FailureKind::RateLimit | FailureKind::Auth) {
        return status_kind;
    }
    if named(CONTEXT_CODES) {
        return FailureKind::ContextWindow;
    }
    if named(POLICY_CODES) {
        return FailureKind::ContentPolicy;
    }
    let about_the_request =
        matches!(status_kind, FailureKind::BadRequest | FailureKind::TooLarge | FailureKind::Unprocessable);
    if !about_the_request && status_kind != FailureKind::Permission {
        return status_kind;
    }
    let text = text.to_lowercase();
    if about_the_request && says(&text, CONTEXT_WORDINGS) {
        FailureKind::ContextWindow
    } else if says(&text, POLICY_WORDINGS) {
        FailureKind::ContentPolicy
    } else {
        status_kind
    }
}

fn says(text: &str, wordings: &[&[&str]]) -> bool {
    wordings.iter().any(|parts| {
        let mut rest = text;
        parts.iter().all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> FailureKind {
        kind(FailureKind::BadRequest, &[], text)
    }

    #[test]
    fn a_prompt_that_is_too_long_is_recognised_in_the_words_of_many_servers() {
        for text in [
            "This model's maximum context length is 512 tokens, you asked for 900",
            "This model's maximum context length is 10 tokens. However, your messages resulted in 99 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
            "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
            "Please reduce the length of the messages or completion.",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "the request exceeds the available context size (8000 tokens)",
            "Context size has been exceeded.",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000 `inputs` tokens",
            "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
            "prompt is too long: 9001 tokens > 8000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
            "The input token count (9001) exceeds the maximum number of tokens allowed (8000)",
            "Input is too long for requested model.",
            "prompt token count of 150000 exceeds the limit of 128000",
            "Too many tokens: the total number of tokens in the prompt exceeds the limit of 8000",
            "too many tokens: total tokens in the prompt cannot exceed 4081 - received 9999",
            "Prompt contains 65673 tokens, too large for model with 32768 maximum context length",
            "the input length exceeds the context length",
            "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)",
        ] {
            assert_eq!(of_text(text), FailureKind::ContextWindow, "{text}");
        }
    }

    #[test]
    fn a_complaint_that_only_mentions_a_context_is_not_one() {
        for text in [
            "messages.0.context must be a string",
            "unknown parameter: context_window",
            "Invalid value for 'context_length': expected an integer",
            "the context of this conversation was not found",
            "max_tokens is too large: 100000. This model supports at most 4096 completion tokens",
            "`temperature` exceeds the maximum of 2",
            "too many messages in the prompt context",
            "",
        ] {
            assert_eq!(of_text(text), FailureKind::BadRequest, "{text}");
        }
    }

    #[test]
    fn content_that_is_not_allowed_is_recognised_in_many_words() {
        for text in [
            "Your request was rejected as a result of our safety system.",
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "Output blocked by content filtering policy",
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
            "Input data may contain inappropriate content.",
        ] {
            assert_eq!(of_text(text), FailureKind::ContentPolicy, "{text}");
        }
        let moderated = "Your input was flagged for \"violence\"";
        assert_eq!(kind(FailureKind::Permission, &[], moderated), FailureKind::ContentPolicy);
    }

    #[test]
    fn codes_are_enough_but_a_limit_and_a_refused_key_stay_what_they_are() {
        let code = ["context_length_exceeded"];
        assert_eq!(kind(FailureKind::BadRequest, &code, "too much text"), FailureKind::ContextWindow);
        assert_eq!(kind(FailureKind::Server, &code, "too much text"), FailureKind::ContextWindow);
        assert_eq!(kind(FailureKind::RateLimit, &code, ""), FailureKind::RateLimit);
        assert_eq!(kind(FailureKind::Auth, &["content_filter"], ""), FailureKind::Auth);
        let names = ["invalid_request_error", "content_policy_violation"];
        assert_eq!(kind(FailureKind::BadRequest, &names, ""), FailureKind::ContentPolicy);
    }

    #[test]
    fn words_count_only_where_the_status_speaks_of_the_request() {
        let text = "maximum context length";
        for status_kind in
            [FailureKind::Server, FailureKind::RateLimit, FailureKind::NotFound, FailureKind::Permission]
        {
            assert_eq!(kind(status_kind, &[], text), status_kind);
        }
        assert_eq!(kind(FailureKind::TooLarge, &[], text), FailureKind::ContextWindow);
    }
}
