//! A pseudo terminal: the screen of the program, and the input of its user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::Command;

use crate::service::TIMEOUT;

pub(crate) struct Terminal {
    keyboard: File,
    shown: std::sync::mpsc::Receiver<Vec<u8>>,
    pub(crate) screen: String,
}

impl Terminal {
    /// Connects the program's standard input and standard error.
    pub(crate) fn attach(command: &mut Command) -> Self {
        let (master, program_side) = pair();
        let input = program_side.try_clone().expect("a second handle");
        command.stdin(Stdio::from(input)).stderr(Stdio::from(program_side));
        Self::new(master)
    }

    /// Connects all of the program's standard streams, as a shell does.
    pub(crate) fn of_all(command: &mut Command) -> Self {
        let (master, program_side) = pair();
        let again = || program_side.try_clone().expect("another handle");
        command.stdin(Stdio::from(again())).stdout(Stdio::from(again()));
        command.stderr(Stdio::from(program_side)).env("TERM", "xterm");
        Self::new(master)
    }

    /// Waits for the end of the program and returns its whole screen, without colours.
    pub(crate) async fn until_end(mut self, mut command: Command) -> (String, Option<i32>) {
        let mut child = command.spawn().expect("start the program");
        // Otherwise this process keeps the program's side open.
        drop(command);
        let status = tokio::time::timeout(TIMEOUT, child.wait()).await.expect("in time");
        let status = status.expect("its status");
        let begin = Instant::now();
        // The thread ends with the program's side.
        loop {
            match self.shown.try_recv() {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => break,
                Err(std::sync::mpsc::TryRecvError::Empty) => {
                    assert!(begin.elapsed() < TIMEOUT, "the terminal is not closed");
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
        }
        (self.screen.replace("\r\n", "\n"), status.code())
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
    let size = Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&program_side, size).expect("set its size");
    (master, program_side)
}
