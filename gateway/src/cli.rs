//! The command line: one file a command.
mod check;
mod demo;
mod explain;
mod inspection;
mod serve;
mod table;

use crate::config::Environment;
use clap::{Args, Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// An LLM gateway whose replicas route as one.
#[derive(Debug, Parser)]
#[command(name = "onegate", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<Serve>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve requests (also without the word: `onegate --config F`)
    Serve(Serve),
    /// Print every fault of a config; needs no network
    Check {
        /// The config.yaml
        #[arg(long)]
        config: PathBuf,
        /// Look at Redis too: can it be reached and used, may it forget what the ledger must remember?
        #[arg(long)]
        online: bool,
    },
    /// Print who would be asked for a model, and why
    Explain {
        /// The config.yaml
        #[arg(long)]
        config: PathBuf,
        /// The name as a client would send it
        #[arg(long)]
        model: String,
    },
    /// Serve scripted models: no key, no config, no Redis
    Demo {
        /// Port; 0 takes a free one
        #[arg(long, default_value_t = 4000)]
        port: u16,
    },
}

#[derive(Debug, Args)]
struct Serve {
    /// The config.yaml
    #[arg(long)]
    config: PathBuf,
    /// Port; 0 takes a free one
    #[arg(long, default_value_t = 4000)]
    port: u16,
    /// Address to listen on; other than loopback only with a master key
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
}

/// Why a command ended without success: the text for a person.
type Failed = Box<dyn std::error::Error>;

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let environment = Environment::of_process();
    let out = &mut std::io::stdout();
    let result = match (cli.command, cli.serve) {
        (Some(Command::Check { config, online }), _) => check::run(out, &config, online, &environment),
        (Some(Command::Explain { config, model }), _) => explain::run(out, &config, &model, &environment),
        (Some(Command::Demo { port }), _) => demo::run(port, &environment),
        (Some(Command::Serve(serve)), _) | (None, Some(serve)) => serve::run(&serve, &environment),
        (None, None) => Err("no config given: try `onegate --config config.yaml`, or `onegate demo`".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            // Nothing is left to tell if stderr itself is gone.
            let _ = writeln!(std::io::stderr(), "{failed}");
            ExitCode::FAILURE
        }
    }
}
