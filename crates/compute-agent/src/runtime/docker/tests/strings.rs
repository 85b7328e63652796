//! A property: whatever a job says, the Engine gets an agent's requests, and the job's texts only
//! as data in them.
//!
//! `ENGINE_REQUESTS_SECONDS` says how long it is tried. A failure prints the seed of its round, and
//! `ENGINE_REQUESTS_SEED` begins with that round.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use api_types::JobId;
use api_types::engine::DockerParams;
use api_types::source::ResultPath;
use futures_util::StreamExt;
use serde_json::Value;

use super::*;
use crate::data::inputs::placement::MountedInput;
use crate::runtime::{OutputRange, environment};

/// Where no variable says otherwise: enough for some hundred rounds.
const SECONDS: u64 = 3;

/// Texts that mean something to a path, a query, a header, a shell or a terminal.
const FRAGMENTS: [&str; 48] = [
    "/",
    "//",
    "..",
    "/../",
    ".",
    "./",
    "?",
    "#",
    "&",
    "=",
    "%",
    "%2f",
    "%2F",
    "%2e%2e",
    "%00",
    "%0d%0a",
    "+",
    " ",
    "\t",
    "\r",
    "\n",
    "\r\n\r\n",
    "\0",
    "\\",
    "\"",
    "'",
    "`",
    "$(x)",
    ";",
    "|",
    ":",
    "@",
    "*",
    "~",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "\u{202e}",
    "\u{feff}",
    "\u{10ffff}",
    "é",
    "containers/json",
    "archive?path=/etc/shadow",
    "HTTP/1.1\r\nHost: x",
    "sha256:",
];

/// A small generator of pseudo-random numbers (SplitMix64): the same seed gives the same round.
struct Random(u64);

// === impl Random ===

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.below(12) {
            match self.below(4) {
                0 => text.push_str(FRAGMENTS[self.below(FRAGMENTS.len())]),
                1 => text.push(char::from(b'a' + u8::try_from(self.below(26)).unwrap())),
                2 => text.extend(char::from_u32(u32::try_from(self.below(0x11_0000)).unwrap())),
                _ => text.push_str(&"long".repeat(self.below(4))),
            }
        }
        // Now and then as long as the kernel takes a string.
        if self.below(50) == 0 {
            text.push_str(&"é/?".repeat(self.below(40_000)));
        }
        text
    }

    /// A path as long as a submission may have it.
    fn path(&mut self) -> String {
        let mut path = format!("/{}", self.text());
        while path.len() > 4095 {
            path.pop();
        }
        path
    }

    fn texts(&mut self) -> Vec<String> {
        (0..self.below(4)).map(|_| self.text()).collect()
    }

    fn image(&mut self) -> String {
        match self.below(4) {
            0 => self.text(),
            1 => format!("alpine{}", self.text()),
            2 => format!("registry.example/{}:1", self.text()),
            _ => {
                ["alpine", "a/b:1", "h.example:5000/a/b", "[::1]:5000/c"][self.below(4)].to_owned()
            }
        }
    }

    fn run(&mut self, node_id: NodeId) -> Run {
        let mut run = run(json!({
            "Image": self.image(),
            "Entrypoint": self.texts(),
            "Parameters": self.texts(),
            "EnvironmentVariables": self.texts(),
            "WorkingDirectory": if self.below(2) == 0 { String::new() } else { self.path() },
        }));
        let mut work = plain_work();
        work.task.engine = run.work.task.engine.clone();
        work.job_id = JobId::from_uuid(mint::node_id().uuid());
        (work.job_name, work.namespace, work.task.name) = (self.text(), self.text(), self.text());
        let count = self.below(4);
        work.task.env = (0..count).map(|_| (self.text(), self.text())).collect();
        work.task.meta = (0..count).map(|_| (self.text(), self.text())).collect();
        let result = |random: &mut Self| ResultPath { name: random.text(), path: random.path() };
        work.task.result_paths = (0..self.below(3)).map(|_| result(self)).collect();
        run.inputs = (0..self.below(3))
            .map(|number| MountedInput {
                source: PathBuf::from(format!("/data/{number}/{}", self.text().replace('\0', "0"))),
                target: self.path(),
                writable: self.below(2) == 0,
            })
            .collect();
        run.secrets.paths = (0..self.below(2)).map(|_| self.path().replace("..", "")).collect();
        let secrets = (0..self.below(2)).map(|_| (self.text(), self.text().into()));
        run.secrets.variables = secrets.collect();
        (run.node_id, run.work) = (node_id, Arc::new(work));
        run
    }
}

#[tokio::test]
async fn every_string_of_a_job_is_only_data_to_the_engine() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seconds = number("ENGINE_REQUESTS_SECONDS").unwrap_or(SECONDS);
    let mut seed = number("ENGINE_REQUESTS_SEED").unwrap_or(1);
    let bench = Bench::start().await;
    for image in ["alpine", "a/b:1", "h.example:5000/a/b", "[::1]:5000/c"] {
        bench.engine.add_image(image);
    }
    let node_id = NodeId::from_uuid(mint::node_id().uuid());
    let (begin, mut made, mut rounds) = (Instant::now(), 0, 0_u64);
    while begin.elapsed() < Duration::from_secs(seconds) || rounds < 100 {
        let run = Random(seed).run(node_id);
        made += u64::from(one_life(&bench, &run, seed).await);
        assert_eq!(bench.engine.violations(), [""; 0], "seed {seed}: {:?}", run.work);
        (seed, rounds) = (seed + 1, rounds + 1);
    }
    println!("{rounds} jobs, {made} of them with a container");
    assert!(made > rounds / 5, "most names of images were refused: {made} of {rounds}");
}

/// Everything that an agent does with a task; returns whether there was a container.
async fn one_life(bench: &Bench, run: &Run, seed: u64) -> bool {
    let docker = &bench.docker;
    let (Ok(params), true) = (params(&run.work), docker.admit(&run.work).is_ok()) else {
        bench.prepare(run).await.expect_err("what is not admitted is not prepared");
        assert_eq!(bench.engine.created(), [Value::Null; 0], "seed {seed}");
        return false;
    };
    // A pull of an image that only looks like one is refused before the Engine is asked.
    if let Err(error) = bench.prepare(run).await {
        assert!(!error.to_string().contains("an agent"), "seed {seed}: {error}");
        assert_eq!(bench.engine.created(), [Value::Null; 0], "seed {seed}: {error}");
        return false;
    }
    let created = bench.engine.created();
    assert_eq!(created.len(), 1, "seed {seed}");
    check_body(&created[0], run, &params, seed);
    docker.start(run.id).await.expect("it starts");
    docker.wait(run.id).await.expect("it ends");
    docker.is_running(run.id).await.expect("its state");
    docker.stop(run.id, Duration::ZERO).await.expect("it has ended");
    let range = OutputRange { follow: false, since: None };
    let mut logs = docker.logs(run.id, range);
    assert!(logs.next().await.expect("output").is_ok(), "seed {seed}");
    for result in &run.work.task.result_paths {
        let mut archive = docker.copy_out(run.id, &result.path);
        assert!(archive.next().await.expect("an archive").is_ok(), "seed {seed}");
    }
    docker.written_bytes(run.id).await.expect("a size");
    docker.usage(run.id).await.expect("usage");
    docker.list(run.node_id).await.expect("a list");
    docker.remove(run.id).await.expect("it is removed");
    true
}

/// The texts arrive as they are, in the fields for them.
fn check_body(body: &Value, run: &Run, params: &DockerParams, seed: u64) {
    let list = |texts: &[String]| match texts {
        [] => Value::Null,
        texts => json!(texts),
    };
    let field = |name: &str| body.get(name).cloned().unwrap_or_default();
    assert_eq!(field("Image"), json!(params.image), "seed {seed}");
    // An empty word keeps the image's entrypoint, as no word does.
    let entrypoint = match &params.entrypoint[..] {
        [word] if word.is_empty() => Value::Null,
        words => list(words),
    };
    assert_eq!(field("Entrypoint"), entrypoint, "seed {seed}");
    assert_eq!(field("Cmd"), list(&params.parameters), "seed {seed}");
    let directory = Some(&params.working_directory).filter(|path| !path.is_empty());
    assert_eq!(field("WorkingDir"), json!(directory), "seed {seed}");
    let mounts: Vec<_> = body["HostConfig"]["Mounts"].as_array().into_iter().flatten().collect();
    let inputs = run.inputs.iter().map(|input| &input.target);
    let targets: Vec<_> = inputs.chain(&run.secrets.paths).collect();
    let mounted: Vec<_> = mounts.iter().map(|mount| mount["Target"].as_str().unwrap()).collect();
    assert_eq!(mounted, targets, "seed {seed}");
    check_env(body, run, params, seed);
    let fields: BTreeMap<_, _> = body["Labels"].as_object().unwrap().iter().collect();
    let ours = |name: &&String| name.starts_with("service.org/");
    assert!(fields.keys().all(ours), "seed {seed}: no text of a job is the name of a label");
}

/// Every variable is one that somebody gave, whole, or the service's own; a secret's is there.
fn check_env(body: &Value, run: &Run, params: &DockerParams, seed: u64) {
    let joined = |(name, value): (&String, &str)| format!("{name}={value}");
    let secrets = run.secrets.variables.iter();
    let secrets: Vec<_> = secrets.map(|(name, value)| joined((name, value.as_str()))).collect();
    let plain = run.work.task.env.iter().map(|(name, value)| joined((name, value)));
    let engine = params.environment_variables.iter().map(|variable| match variable.contains('=') {
        true => variable.clone(),
        false => format!("{variable}="),
    });
    let given: BTreeSet<_> = plain.chain(engine).chain(secrets.iter().cloned()).collect();
    let ours = environment::of_service(run.id, run.node_id, &run.work).into_iter();
    let threads = environment::of_threads(&run.work);
    let ours: BTreeSet<_> = ours.map(|(name, value)| format!("{name}={value}")).collect();
    let threads: BTreeSet<_> = threads.map(|(name, value)| format!("{name}={value}")).collect();
    let sent = body["Env"].as_array().into_iter().flatten();
    let sent: BTreeSet<_> = sent.map(|text| text.as_str().unwrap().to_owned()).collect();
    for text in &sent {
        let is_known = [&given, &ours, &threads].into_iter().any(|texts| texts.contains(text));
        assert!(is_known, "seed {seed}: {text:?} is nobody's");
    }
    assert!(ours.is_subset(&sent), "seed {seed}");
    let is_overridden = |text: &String| {
        let name = text.split_once('=').map(|(name, _)| name);
        let later = secrets.iter().rev().take_while(|secret| *secret != text);
        later.chain(&ours).any(|other| other.split_once('=').map(|(name, _)| name) == name)
    };
    for text in &secrets {
        assert!(sent.contains(text) || is_overridden(text), "seed {seed}: {text:?} is missing");
    }
}
