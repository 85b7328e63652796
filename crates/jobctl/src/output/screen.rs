//! The alternate screen of a terminal, for what takes the place of what was shown: what was on the
//! terminal before is there again afterwards, with its scrollback.

use std::io::{IsTerminal, Read, Write};

use anyhow::{Context, Result};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Alternate screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";

const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Shown until this is dropped.
#[derive(Debug)]
pub(crate) struct Screen {
    /// The keyboard's settings before, if it is a terminal.
    before: Option<Termios>,
    keys: mpsc::UnboundedReceiver<u8>,
    signals: [Signal; 3],
}

// === impl Screen ===

impl Screen {
    pub(crate) fn enter() -> Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        // First: whatever ends the program leaves the screen.
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        let (sender, keys) = mpsc::unbounded_channel();
        let before = if std::io::stdin().is_terminal() { Some(each_key()?) } else { None };
        let screen = Self { before, keys, signals };
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(ENTER).and_then(|()| stdout.flush()).context("write to the terminal")?;
        if screen.before.is_some() {
            // A separate thread: a read cannot be cancelled, and must not delay the exit.
            std::thread::spawn(move || {
                let mut key = [0];
                while let Ok(1) = std::io::stdin().read(&mut key) {
                    if sender.send(key[0]).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(screen)
    }

    /// Shows this text from the top, as much of it as fits. The screen must have been entered.
    pub(crate) fn draw(text: &str) -> Result<()> {
        let rows = tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_row);
        let rows = if rows == 0 { usize::MAX } else { usize::from(rows) };
        let lines: Vec<_> = text.lines().take(rows).collect();
        // Each line erases what was behind it, and the end what was below: nothing flickers.
        let drawn = format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"));
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(drawn.as_bytes()).and_then(|()| stdout.flush())?;
        Ok(())
    }

    /// Returns when the user has pressed `q` or Ctrl-C, or the program is to end.
    pub(crate) async fn quit(&mut self) {
        let Self { keys, signals: [interrupt, terminate, hangup], .. } = self;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = hangup.recv() => return,
                key = keys.recv() => match key {
                    Some(b'q' | b'Q') => return,
                    Some(_) => {}
                    // Without a keyboard, signals are all there is.
                    None => std::future::pending().await,
                },
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(LEAVE).and_then(|()| stdout.flush());
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Has the terminal pass on each key without showing it; returns its settings before.
fn each_key() -> Result<Termios> {
    let before = tcgetattr(std::io::stdin()).context("read the terminal's settings")?;
    let mut each = before.clone();
    each.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    // A program that is suspended would leave the shell on this screen.
    each.special_codes[SpecialCodeIndex::VSUSP] = 0;
    tcsetattr(std::io::stdin(), OptionalActions::Now, &each).context("read single keys")?;
    Ok(before)
}
