//! Who answers a deployment's calls: the provider by the model's prefix, its address and key.
use super::problem::Problems;
use super::read::{Field, Section};
use super::secrets;
use crate::secret::Secret;
use http::Uri;

/// Where a deployment without `api_base` is.
const OPENAI: &str = "https://api.openai.com/v1";

/// The only provider prefix so far.
const PREFIX: &str = "openai/";

/// What a draft knows of who answers.
pub(super) struct Endpoint {
    /// `mock_response`: then nobody is called.
    pub(super) mock: Option<String>,
    /// Without a slash at the end.
    pub(super) base: String,
    pub(super) key: Option<Secret>,
    /// Without our prefix.
    pub(super) model: String,
}

/// Reads all keys of `litellm_params` that say who answers.
pub(super) fn endpoint(
    params: &Section<'_>,
    model: Option<&(&str, Field<'_>)>,
    openai_key: Option<&str>,
    problems: &mut Problems,
) -> Endpoint {
    let mock = params.read("mock_response", Field::text, problems).map(str::to_owned);
    let is_mock = params.get("mock_response").is_some();
    let provider = params.get("custom_llm_provider");
    if let Some(field) = provider.as_ref().filter(|_| !is_mock)
        && field.text(problems).is_some_and(|provider| provider != "openai")
    {
        problems.push(field.error("this provider is not spoken yet").allowed("openai"));
    }
    let any_prefix = is_mock || provider.is_some();
    let name = model.and_then(|(name, field)| provider_model(name, field, any_prefix, problems));
    let address = ["api_base", "base_url"].iter().find_map(|key| params.get(key));
    let base = address.as_ref().and_then(|field| base(field, problems));
    let key = params.read("api_key", Field::secret, problems);
    // The environment's key is OpenAI's own: it goes nowhere else.
    let key = key.or_else(|| openai_key.filter(|_| address.is_none()).map(|key| Secret::new(key.to_owned())));
    let keyless = key.is_none() && params.get("api_key").is_none() && address.is_none() && !is_mock;
    if let Some((_, field)) = model.filter(|_| keyless && name.is_some()) {
        let problem = field.warning("calls to this deployment carry no key");
        let allowed = "`api_key`, the variable `OPENAI_API_KEY`, or an `api_base` that asks for none";
        problems.push(problem.allowed(allowed));
    }
    Endpoint {
        mock,
        base: base.unwrap_or_else(|| OPENAI.to_owned()),
        key,
        model: name.unwrap_or_default().to_owned(),
    }
}

/// The provider's own name of the model. `any_prefix`: somebody else has said who the provider is.
fn provider_model<'m>(
    name: &'m str,
    field: &Field<'_>,
    any_prefix: bool,
    problems: &mut Problems,
) -> Option<&'m str> {
    let Some((prefix, _)) = name.split_once('/') else { return Some(name) };
    match name.strip_prefix(PREFIX) {
        Some("") => {
            problems.push(field.error("`model` names no model").allowed("openai/NAME"));
            None
        }
        Some(model) => Some(model),
        None if any_prefix => Some(name),
        None => {
            let prefix = if field.is_from_environment() { "PREFIX" } else { prefix };
            let prefix = secrets::shown_text(prefix);
            let problem = field.error(format!("only openai/ is spoken so far, not {prefix}/"));
            let own_slash =
                format!("openai/NAME or NAME; a name that has a slash itself is openai/{prefix}/…");
            problems.push(problem.allowed(own_slash));
            None
        }
    }
}

/// An address that paths can be appended to.
fn base(field: &Field<'_>, problems: &mut Problems) -> Option<String> {
    let text = field.text(problems)?.trim();
    let uri = text.parse::<Uri>().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    let host = authority.map(http::uri::Authority::host).unwrap_or_default();
    let is_http = uri.as_ref().is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    let key = field.key;
    let refusal = if !is_http || host.is_empty() {
        Some((format!("`{key}` must be an address"), "http://… or https://… with a host"))
    } else if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        Some((format!("`{key}` holds credentials"), "the address alone; `api_key` is the place for a key"))
    } else if text.contains(['?', '#']) {
        Some((format!("`{key}` must end with its path"), "no `?` or `#`: `/chat/completions` is appended"))
    } else {
        None
    };
    if let Some((what, allowed)) = refusal {
        problems.push(field.error(what).allowed(allowed));
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}
