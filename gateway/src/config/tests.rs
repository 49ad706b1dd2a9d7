//! The config from outside: golden files, the catalog that good files give, and text that nobody wrote.
mod catalog;
mod damage;
mod golden;
mod identity;
mod redis;

use super::{Environment, Loaded, Problems, load_text};

/// A config text that stands alone.
fn read(text: &str) -> Result<Loaded, Problems> {
    load_text("config.yaml", text, &Environment::default())
}

/// A config with one deployment that has these `litellm_params`, written in braces.
fn with_params(params: &str) -> Result<Loaded, Problems> {
    read(&format!(
        "model_list: [{{model_name: chat, litellm_params: {{model: openai/m, api_key: k{params}}}}}]"
    ))
}
