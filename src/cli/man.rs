//! `runner man`: the manual pages, of the program or of one command, in the language of `man`.

use clap::CommandFactory;

use super::console;
use super::entry::Arguments;
use super::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  runner man | man -l -
  runner man diff > runner-diff.1";

/// Print the manual page of this program, or of one of its commands
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints it.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut program = Arguments::command();
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
                return Err(Failure::usage(format!("there is no command `{name}`; there are {}", names.join(", "))));
            }
        },
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(|e| Failure::new(Exit::Failed, e))?;
    console::print_always(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}
