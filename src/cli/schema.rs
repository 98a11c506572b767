//! `runner schema`: the experiment language as a JSON Schema, for editors that complete and check as one types.

use super::console;
use super::exit::{Exit, Failure};

/// Print the JSON Schema of experiment files, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  runner schema > experiments/schema.json")]
pub(super) struct Args {}

/// Prints the schema.
pub(super) fn run(_: &Args) -> Result<Exit, Failure> {
    let schema = serde_json::to_string_pretty(&crate::experiment::schema::json()).expect("its keys are text");
    console::print_always(&format!("{schema}\n"))?;
    Ok(Exit::Done)
}
