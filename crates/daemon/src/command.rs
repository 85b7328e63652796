//! The command line, shared by both daemons.

use std::path::PathBuf;

/// What the command line requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Run {
        config: Option<PathBuf>,
    },
    /// Ask the daemon with these settings whether it is ready.
    Health {
        config: Option<PathBuf>,
    },
    Help,
    Version,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    #[error("--config needs a file")]
    NoFile,
    #[error("unknown argument '{argument}'; try --help")]
    Unknown { argument: String },
}

// === impl Command ===

impl Command {
    /// `arguments` are the arguments after the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, InvalidCommand> {
        let mut arguments = arguments.into_iter();
        let (mut config, mut health) = (None, false);
        while let Some(argument) = arguments.next() {
            match (argument.as_str(), argument.strip_prefix("--config=")) {
                ("--help" | "-h", _) => return Ok(Self::Help),
                ("--version" | "-V", _) => return Ok(Self::Version),
                ("--health", _) => health = true,
                ("--config", _) => {
                    let path = arguments.next().ok_or(InvalidCommand::NoFile)?;
                    config = Some(PathBuf::from(path));
                }
                (_, Some("")) => return Err(InvalidCommand::NoFile),
                (_, Some(path)) => config = Some(PathBuf::from(path)),
                (_, None) => return Err(InvalidCommand::Unknown { argument }),
            }
        }
        Ok(if health { Self::Health { config } } else { Self::Run { config } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Command, String> {
        Command::parse(arguments.iter().map(ToString::to_string)).map_err(|error| error.to_string())
    }

    #[test]
    fn valid_commands_are_parsed() {
        let config = Some(PathBuf::from("a.toml"));
        for (arguments, expected) in [
            (&[][..], Command::Run { config: None }),
            (&["--config", "a.toml"], Command::Run { config: config.clone() }),
            (&["--config=a.toml"], Command::Run { config: config.clone() }),
            (&["--health"], Command::Health { config: None }),
            (&["--config=a.toml", "--health"], Command::Health { config }),
            (&["--health", "--help"], Command::Help),
            (&["-V"], Command::Version),
        ] {
            assert_eq!(parse(arguments), Ok(expected), "{arguments:?}");
        }
    }

    #[test]
    fn invalid_arguments_are_named() {
        for (arguments, word) in [
            (&["--config"][..], "--config needs a file"),
            (&["--config="], "--config needs a file"),
            (&["--health", "--port"], "unknown argument '--port'; try --help"),
        ] {
            assert_eq!(parse(arguments), Err(word.to_owned()), "{arguments:?}");
        }
    }
}
