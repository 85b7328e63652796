//! A pseudo terminal: the screen of the program, and the input of its user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::Command;

use crate::service::TIMEOUT;

pub(crate) struct Terminal {
    keyboard: File,
    shown: std::sync::mpsc::Receiver<Vec<u8>>,
    pub(crate) screen: String,
}

impl Terminal {
    /// Connects the program's standard input and standard error.
    pub(crate) fn of(command: &mut Command) -> Self {
        let (master, program_side) = pair();
        let input = program_side.try_clone().expect("a second handle");
        command.stdin(Stdio::from(input)).stderr(Stdio::from(program_side));
        Self::new(master)
    }

    /// Connects the program's standard output.
    pub(crate) fn of_output(command: &mut Command) -> Self {
        let (master, program_side) = pair();
        command.stdout(Stdio::from(program_side));
        Self::new(master)
    }

    fn new(master: OwnedFd) -> Self {
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().expect("a second handle");
        let (sender, shown) = std::sync::mpsc::channel();
        // Ends when the program closes its side.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = output.read(&mut buffer) {
                if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keyboard, shown, screen: String::new() }
    }

    /// Waits until the text is on the screen.
    pub(crate) async fn until(&mut self, text: &str) {
        let begin = Instant::now();
        while !self.screen.contains(text) {
            while let Ok(bytes) = self.shown.try_recv() {
                self.screen.push_str(&String::from_utf8_lossy(&bytes));
            }
            assert!(begin.elapsed() < TIMEOUT, "'{text}' is not on the screen: {}", self.screen);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("type");
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo terminal");
    grantpt(&master).expect("grant it");
    unlockpt(&master).expect("unlock it");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let program_side =
        open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("open it");
    (master, program_side)
}
