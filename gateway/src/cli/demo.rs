//! `onegate demo`: the real gateway before scripted models. No key, no config, no Redis.
mod scripted;

use super::{Failed, serve, table};
use crate::config::{self, Environment};
use crate::telemetry::begin_log;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};

/// Serves the demo until told to end.
pub(super) fn run(port: u16, environment: &Environment) -> Result<(), Failed> {
    begin_log(environment.get("ONEGATE_LOG"));
    serve::runtime()?.block_on(async {
        let listener = serve::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let models = scripted::start().await?;
        // The demo is the same everywhere: no variable of the machine reaches its config.
        let loaded = config::load_text("demo", &config_text(models), &Environment::default())?;
        let out = &mut std::io::stdout();
        let address = listener.local_addr()?;
        writeln!(out, "Onegate demo: three scripted deployments of `chat`, one quick, one slow, one that fails now and then.")?;
        write!(out, "{}", table::of(&loaded.catalog))?;
        writeln!(out, "ledger in this process; listening on http://{address}")?;
        writeln!(out, "\nTry it, a few times:\n\n  curl http://{address}/v1/chat/completions -H 'content-type: application/json' \\")?;
        writeln!(out, "    -d '{{\"model\": \"chat\", \"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}'\n")?;
        writeln!(out, "Each request is one line below: who was picked and why. Ctrl-C ends it.\n")?;
        serve::serve(serve::build(loaded).await?, listener).await
    })
}

fn config_text(models: SocketAddr) -> String {
    format!(
        "model_list:
  - {{model_name: chat, litellm_params: {{model: openai/quick, api_base: 'http://{models}/quick/v1', rpm: 60}}, model_info: {{id: quick}}}}
  - {{model_name: chat, litellm_params: {{model: openai/slow, api_base: 'http://{models}/slow/v1', rpm: 30}}, model_info: {{id: slow}}}}
  - {{model_name: chat, litellm_params: {{model: openai/flaky, api_base: 'http://{models}/flaky/v1', rpm: 60}}, model_info: {{id: flaky}}}}
  - {{model_name: last-resort, litellm_params: {{model: openai/last, mock_response: 'All scripted models are busy.'}}, model_info: {{id: last}}}}
router_settings:
  routing_strategy: simple-shuffle
  enable_pre_call_checks: true
  fallbacks: [{{chat: [last-resort]}}]
"
    )
}
