//! Measures the service: `bench [quick] [--only GROUP] [--out DIRECTORY]`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use bench::{self, FULL, QUICK, Report, Scale};

/// Default directory of the results.
const OUT: &str = "target/bench";

/// The argument that starts this program as the floor of submissions.
const SERVE_FLOOR: &str = "--serve-floor";

struct Arguments {
    scale: Scale,
    only: String,
    out: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return report_error(&error.into()),
    };
    if words.first().is_some_and(|word| word == SERVE_FLOOR) {
        return match runtime.block_on(bench::serve_floor(say_address)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report_error(&error),
        };
    }
    let outcome = arguments(&words).and_then(|arguments| runtime.block_on(run(&arguments, &words)));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => report_error(&error),
    }
}

/// Runs the benchmarks; returns whether every target is met.
async fn run(arguments: &Arguments, words: &[String]) -> anyhow::Result<bool> {
    testbed::harness::use_binaries_next_to_this_program()?;
    let begin = Instant::now();
    let measures = bench::run(arguments.scale, &arguments.only, say).await;
    let command = format!("just bench {}", words.join(" ")).trim_end().to_owned();
    let report = Report::new(command, begin.elapsed().as_secs(), measures);
    std::fs::create_dir_all(&arguments.out).context("create the directory of results")?;
    let path = |ending: &str| arguments.out.join(format!("{}.{ending}", arguments.scale.name));
    std::fs::write(path("json"), serde_json::to_vec_pretty(&report)?)
        .context("write the results")?;
    let table = bench::markdown(&report);
    std::fs::write(path("md"), &table).context("write the results")?;
    say(&format!("\n{table}\nalso in {} and .json", path("md").display()));
    Ok(report.measures.iter().all(|measure| measure.is_met() != Some(false)))
}

fn arguments(words: &[String]) -> anyhow::Result<Arguments> {
    let usage = "usage: bench [quick] [--only GROUP] [--out DIRECTORY]";
    let mut arguments = Arguments { scale: FULL, only: String::new(), out: OUT.into() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "quick" => arguments.scale = QUICK,
            "--only" => arguments.only.clone_from(words.next().context(usage)?),
            "--out" => arguments.out = words.next().context(usage)?.into(),
            _ => anyhow::bail!(usage),
        }
    }
    Ok(arguments)
}

#[expect(clippy::print_stdout, reason = "this program prints its results")]
fn say(text: &str) {
    println!("{text}");
}

fn say_address(address: SocketAddr) {
    say(&address.to_string());
}

fn report_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("{error:#}");
    ExitCode::from(64)
}
