//! `jobctl open`: the page of a job, an execution or the cluster in a browser.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::cli::OpenArgs;
use crate::exit::Exit;
use crate::handles::{Handle, resolve};
use crate::output::note;
use crate::session::Session;

/// Prints the address, and opens it if a browser can be started from here.
pub(super) async fn open(session: &Session, args: &OpenArgs) -> Result<Exit> {
    let page = match &args.job {
        None => String::new(),
        Some(text) => {
            let namespace = session.namespace(&args.namespace);
            match resolve(session, namespace.as_deref(), text, args.index).await? {
                Handle::Job(id) => format!("jobs/{id}"),
                Handle::Execution(execution) => format!("executions/{}", execution.id),
            }
        }
    };
    // Of several URLs, the one that has just answered.
    let url = format!("{}/{page}", session.client.base_url());
    session.out.line(&url)?;
    if session.out.is_terminal()
        && let Some(program) = opener(|name| std::env::var_os(name))
        && let Err(error) = start(&program, &url)
    {
        note(&format!("jobctl: cannot start {}: {error}", program.to_string_lossy()));
    }
    Ok(Exit::Done)
}

/// `$BROWSER`, or what the desktop has for it; a session without a desktop has none.
fn opener(variable: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let on_desktop = || set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY")).is_some();
    set("BROWSER").or_else(|| match std::env::consts::OS {
        "macos" => Some("open".into()),
        _ => on_desktop().then(|| "xdg-open".into()),
    })
}

fn start(program: &OsString, url: &str) -> std::io::Result<()> {
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_needs_a_desktop_or_a_name() {
        let set = |name: &'static str| move |asked: &str| (asked == name).then(|| "x".into());
        assert_eq!(opener(set("BROWSER")), Some("x".into()));
        if cfg!(target_os = "linux") {
            assert_eq!(opener(set("DISPLAY")), Some("xdg-open".into()));
            assert_eq!(opener(|_| None), None);
        }
    }
}
