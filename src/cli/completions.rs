//! `runner completions SHELL`: the shell's script that completes this program's arguments.

use clap::CommandFactory;
use clap_complete::Shell;

use super::console;
use super::entry::Arguments;
use super::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  runner completions bash > ~/.local/share/bash-completion/completions/runner
  runner completions zsh > ~/.zfunc/_runner
  runner completions fish > ~/.config/fish/completions/runner.fish";

/// Print a shell's completions of this program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints them.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "runner", &mut text);
    console::print_always(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}
