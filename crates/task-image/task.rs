//! The program inside the task image: one subcommand per behaviour of a task.
//!
//! `build.rs` compiles this file separately into a static program, the only file of the image, so
//! that demo and tests need no registry. It uses only the standard library and is not subject to
//! the workspace's lints.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

mod span;

const USAGE: &str = "usage: task SUBCOMMAND
  echo WORD...                 print the words; `err` prints them to stderr
  sleep SECONDS, stubborn SECONDS  wait, then print a line; exit with 143 on SIGTERM, or ignore it
  await                        print a line, wait for SIGUSR1, print another line
  exit CODE [WORD...]          print the words, exit with the code
  exit odd                     exit with 1 if the index of the execution is odd
  env, pwd                     print the environment, sorted, or the working directory
  cat PATH...                  print files
  wc [--share] [PATH]          count lines, words and bytes of every file below PATH (/inputs);
                               with --share only this execution's part of the lines
  write PATH WORD..., span PATH NAME SECONDS  write a file, or note start and end in a shared one
  fill PATH MEGABYTES [SECONDS]  write a file of this size, then wait
  memory MEGABYTES [SECONDS]   allocate this much memory, then hold it
  nest PATH DEPTH              make DEPTH directories, each in the one before
  burn SECONDS                 keep one core busy
  lines COUNT [stdout|stderr|both] [INTERVAL_MS]
  wide COUNT WIDTH             print lines padded by WIDTH characters to both streams
  stream LINES WIDTH TIMES INTERVAL_MS  print LINES lines of WIDTH bytes each time
  binary                       print every byte once, without a line end
  bytes COUNT [stdout|stderr]  print COUNT bytes, without a line end
  net, limits                  print the names of the network interfaces, or the control group's limits
  children COUNT               start COUNT processes, print how many were started";

/// The exit code that shells report after SIGTERM.
const EXIT_SIGTERM: i32 = 143;

const SIGTERM: i32 = 15;
const SIGUSR1: i32 = 10;
const SIG_IGN: usize = 1;

// The standard library links the C library; these declarations avoid a crate.
unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
    fn write(file: i32, bytes: *const u8, count: usize) -> isize;
    fn _exit(code: i32) -> !;
}

fn main() -> ExitCode {
    // Process 1 of a container has no default action for SIGTERM.
    on_sigterm(end_on_sigterm as extern "C" fn(i32) as usize);
    let arguments: Vec<String> = env::args().skip(1).collect();
    let failed = |error| {
        eprintln!("task: {error}");
        ExitCode::from(2)
    };
    run(&arguments).map_or_else(failed, ExitCode::from)
}

type Outcome = Result<u8, Box<dyn std::error::Error>>;

fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["echo", words @ ..] => println!("{}", words.join(" ")),
        ["err", words @ ..] => eprintln!("{}", words.join(" ")),
        ["sleep", seconds] => sleep(seconds)?,
        ["stubborn", seconds] => {
            on_sigterm(SIG_IGN);
            println!("ignoring SIGTERM");
            sleep(seconds)?;
        }
        ["await"] => await_signal(),
        ["exit", "odd"] => return Ok(share()?.0 as u8 % 2),
        ["exit", code, words @ ..] => {
            if !words.is_empty() {
                println!("{}", words.join(" "));
            }
            return Ok(code.parse()?);
        }
        ["env"] => print_environment(),
        ["pwd"] => println!("{}", env::current_dir()?.display()),
        ["cat", paths @ ..] => {
            for path in paths {
                io::stdout().write_all(&read(path)?)?;
            }
        }
        ["wc", "--share"] => count_words(Path::new("/inputs"), true)?,
        ["wc", "--share", path] => count_words(Path::new(path), true)?,
        ["wc"] => count_words(Path::new("/inputs"), false)?,
        ["wc", path] => count_words(Path::new(path), false)?,
        ["write", path, words @ ..] => {
            let text = format!("{}\n", words.join(" "));
            fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}"))?;
            println!("wrote {path}");
        }
        ["span", path, name, seconds] => span::note(path, name, duration(seconds)?)?,
        ["fill", path, megabytes] => fill_file(path, megabytes.parse()?, Duration::ZERO)?,
        ["fill", path, megabytes, seconds] => {
            fill_file(path, megabytes.parse()?, duration(seconds)?)?;
        }
        ["nest", path, depth] => {
            env::set_current_dir(path)?;
            for _ in 0..depth.parse::<u32>()? {
                fs::create_dir("d")?;
                env::set_current_dir("d")?;
            }
        }
        ["memory", megabytes] => fill_memory(megabytes.parse()?, Duration::ZERO),
        ["memory", megabytes, seconds] => fill_memory(megabytes.parse()?, duration(seconds)?),
        ["burn", seconds] => burn(duration(seconds)?),
        ["work", megabytes, seconds] => work(megabytes.parse()?, duration(seconds)?),
        ["lines", count] => print_lines(count.parse()?, "stdout", Duration::ZERO)?,
        ["lines", count, stream] => print_lines(count.parse()?, stream, Duration::ZERO)?,
        ["lines", count, stream, interval_ms] => {
            print_lines(count.parse()?, stream, Duration::from_millis(interval_ms.parse()?))?;
        }
        ["wide", count, width] => print_wide_lines(count.parse()?, width.parse()?)?,
        ["stream", lines, width, times, interval_ms] => {
            let mut line = "x".repeat(width.parse::<usize>()?.saturating_sub(1));
            line.push('\n');
            let piece = line.repeat(lines.parse()?);
            let (begin, interval) = (Instant::now(), Duration::from_millis(interval_ms.parse()?));
            for time in 1..=times.parse::<u32>()? {
                io::stdout().write_all(piece.as_bytes())?;
                thread::sleep((interval * time).saturating_sub(begin.elapsed()));
            }
        }
        ["binary"] => {
            let every_byte: Vec<u8> = (0..=255).collect();
            io::stdout().write_all(&every_byte)?;
            io::stdout().flush()?;
        }
        ["bytes", count] => print_bytes(count.parse()?, "stdout")?,
        ["bytes", count, stream] => print_bytes(count.parse()?, stream)?,
        ["net"] => print_interfaces()?,
        ["limits"] => print_limits(),
        ["children", count] => start_children(count.parse()?),
        _ => {
            eprintln!("{USAGE}");
            return Ok(64);
        }
    }
    Ok(0)
}

// === signals ===

extern "C" fn end_on_sigterm(_: i32) {
    let text = b"ended by SIGTERM\n";
    // SAFETY: both calls are async-signal-safe (signal-safety(7)); the text outlives the call.
    unsafe {
        write(1, text.as_ptr(), text.len());
        _exit(EXIT_SIGTERM);
    }
}

static IS_SIGNALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(_: i32) {
    IS_SIGNALLED.store(true, Ordering::Relaxed);
}

fn await_signal() {
    // SAFETY: the handler has the signature that signal(2) requires, and only stores to an atomic.
    unsafe {
        signal(SIGUSR1, note_signal as extern "C" fn(i32) as usize);
    }
    println!("waiting");
    while !IS_SIGNALLED.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
    }
    println!("signalled");
}

fn on_sigterm(handler: usize) {
    // SAFETY: the handler is SIG_IGN or a function with the signature that signal(2) requires.
    unsafe {
        signal(SIGTERM, handler);
    }
}

// === time and machine ===

fn duration(seconds: &str) -> Result<Duration, Box<dyn std::error::Error>> {
    Ok(Duration::try_from_secs_f64(seconds.parse()?)?)
}

fn sleep(seconds: &str) -> Result<(), Box<dyn std::error::Error>> {
    thread::sleep(duration(seconds)?);
    println!("slept {seconds} s");
    Ok(())
}

fn burn(how_long: Duration) {
    let end = Instant::now() + how_long;
    let mut rounds: u64 = 0;
    while Instant::now() < end {
        rounds = std::hint::black_box(rounds + 1);
    }
    println!("burnt {rounds} rounds");
}

fn fill_memory(megabytes: usize, hold: Duration) {
    let held = filled(megabytes);
    println!("filled {megabytes} MB");
    thread::sleep(hold);
    drop(held);
}

/// Uses a processor and memory.
fn work(megabytes: usize, how_long: Duration) {
    let _held = filled(megabytes);
    burn(how_long);
}

fn filled(megabytes: usize) -> Vec<Vec<u8>> {
    // Writes to the memory, since the kernel allocates pages lazily.
    (0..megabytes).map(|_| std::hint::black_box(vec![0xa5_u8; 1 << 20])).collect()
}

fn fill_file(path: &str, megabytes: usize, hold: Duration) -> Result<(), String> {
    let refuse = |error: io::Error| format!("cannot write {path}: {error}");
    let mut file = fs::File::create(path).map_err(refuse)?;
    for _ in 0..megabytes {
        file.write_all(&[b'x'; 1_000_000]).map_err(refuse)?;
    }
    println!("wrote {megabytes} MB");
    thread::sleep(hold);
    Ok(())
}

fn start_children(count: usize) {
    let mut children = Vec::new();
    for _ in 0..count {
        match Command::new("/proc/self/exe").args(["sleep", "60"]).spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                println!("refused: {error}");
                break;
            }
        }
    }
    println!("started {}", children.len());
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

// === output ===

fn sink(stream: &str) -> Result<Box<dyn Write>, String> {
    match stream {
        "stdout" => Ok(Box::new(io::stdout())),
        "stderr" => Ok(Box::new(io::stderr())),
        other => Err(format!("'{other}' is neither stdout nor stderr")),
    }
}

fn print_lines(count: u64, stream: &str, interval: Duration) -> io::Result<()> {
    let streams = if stream == "both" { vec!["stdout", "stderr"] } else { vec![stream] };
    let mut sinks = Vec::new();
    for stream in streams {
        sinks.push(BufWriter::new(sink(stream).map_err(io::Error::other)?));
    }
    for number in 0..count {
        for sink in &mut sinks {
            writeln!(sink, "line {number}")?;
            if !interval.is_zero() {
                sink.flush()?;
            }
        }
        if !interval.is_zero() {
            thread::sleep(interval);
        }
    }
    sinks.iter_mut().try_for_each(BufWriter::flush)
}

fn print_wide_lines(count: u64, width: usize) -> io::Result<()> {
    let rest = "x".repeat(width);
    let (mut out, mut err) = (BufWriter::new(io::stdout()), BufWriter::new(io::stderr()));
    for number in 0..count {
        writeln!(out, "line {number} {rest}")?;
        writeln!(err, "line {number} {rest}")?;
    }
    out.flush()?;
    err.flush()
}

fn print_bytes(count: usize, stream: &str) -> io::Result<()> {
    let mut sink = sink(stream).map_err(io::Error::other)?;
    let bytes: Vec<u8> = b"0123456789".iter().copied().cycle().take(count).collect();
    sink.write_all(&bytes)?;
    sink.flush()
}

fn print_environment() {
    let sorted: BTreeMap<_, _> = env::vars_os().collect();
    for (name, value) in sorted {
        println!("{}={}", name.to_string_lossy(), value.to_string_lossy());
    }
}

// === surroundings ===

fn print_interfaces() -> io::Result<()> {
    // Two header lines, then `  name: counters`.
    for line in fs::read_to_string("/proc/net/dev")?.lines().skip(2) {
        if let Some((name, _)) = line.split_once(':') {
            println!("{}", name.trim());
        }
    }
    Ok(())
}

/// Prints a line `name value` for each limit: `cpu` in cores, `memory` in bytes, `pids` as a count;
/// `max` without a limit. Reads control groups of version 2, or of version 1.
fn print_limits() {
    let text = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let first = |paths: &[&str]| {
        paths.iter().find_map(|path| text(path)).unwrap_or_else(|| "unknown".to_owned())
    };
    let v1 = text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        .zip(text("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
        .map(|(quota, period)| format!("{quota} {period}"));
    let cpu = text("/sys/fs/cgroup/cpu.max").or(v1).unwrap_or_else(|| "unknown".to_owned());
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let cores = match cpu.split_once(' ').map(|(quota, period)| (number(quota), number(period))) {
        Some((Some(quota), Some(period))) => (quota / period).to_string(),
        // `max`, or -1 in version 1.
        Some(_) => "max".to_owned(),
        None => cpu,
    };
    println!("cpu {cores}");
    let memory = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    println!("memory {}", first(&memory));
    println!("pids {}", first(&["/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"]));
}

// === files ===

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, String> {
    let path = path.as_ref();
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(bytes)
}

/// All files at or below `path`, sorted.
fn files_below(path: &Path) -> Result<Vec<PathBuf>, String> {
    let refuse = |error: io::Error| format!("cannot read {}: {error}", path.display());
    if !fs::metadata(path).map_err(refuse)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(refuse)? {
        files.extend(files_below(&entry.map_err(refuse)?.path())?);
    }
    files.sort();
    Ok(files)
}

/// This execution's share of the lines: its index, and the number of executions.
fn share() -> Result<(usize, usize), String> {
    let number = |name: &str| {
        let text = env::var(name).map_err(|_| format!("{name} is not set"))?;
        text.parse::<usize>().map_err(|_| format!("{name} is not a number: '{text}'"))
    };
    let (index, count) = (number("SERVICE_EXECUTION_INDEX")?, number("SERVICE_EXECUTION_COUNT")?);
    if index < count {
        Ok((index, count))
    } else {
        Err(format!("execution {index} of {count} has no share"))
    }
}

fn count_words(path: &Path, only_share: bool) -> Result<(), String> {
    let (index, count) = if only_share { share()? } else { (0, 1) };
    for file in files_below(path)? {
        let bytes = read(&file)?;
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let part = &lines[lines.len() * index / count..lines.len() * (index + 1) / count];
        let words: usize = part
            .iter()
            .map(|line| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count())
            .sum();
        let size: usize = part.iter().map(|line| line.len()).sum();
        println!("{} {words} {size} {}", part.len(), file.display());
    }
    Ok(())
}
