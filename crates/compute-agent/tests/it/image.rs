//! The image of these tests: one static program, built here and loaded into the Engine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use bollard::Docker;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use tokio::sync::OnceCell;

const SOURCE: &str = include_str!("task.rs");

/// The Engine, or `None` with a printed notice where there is none; with `CI` set that is a
/// failure.
pub(crate) async fn docker() -> Option<Docker> {
    let client = match Docker::connect_with_unix_defaults() {
        Ok(client) => client.negotiate_version().await,
        Err(error) => Err(error),
    };
    match client {
        Ok(client) => Some(client),
        Err(error) if std::env::var_os("CI").is_none() => {
            #[expect(clippy::print_stdout, reason = "a skipped test says so in its output")]
            let () = println!("skipped: no Docker Engine answers ({error})");
            None
        }
        Err(error) => panic!("no Docker Engine answers: {error}"),
    }
}

/// The name of the image. It carries a hash of its source, so that it is made once and found
/// again by later runs.
pub(crate) async fn ensure(docker: &Docker) -> String {
    static MADE: OnceCell<String> = OnceCell::const_new();
    MADE.get_or_init(|| make(docker)).await.clone()
}

/// Another image of the same program, whose file system has more, and whose configuration has these
/// instructions of a Dockerfile as well. The caller removes it.
pub(crate) async fn with(
    docker: &Docker,
    add: impl FnOnce(&mut tar::Builder<Vec<u8>>),
    instructions: &[&str],
) -> String {
    let tag = crate::orchestrator::new_id().to_string();
    let mut tar = tar::Builder::new(Vec::new());
    add(&mut tar);
    // What the program's archive ends with follows at its own end.
    let mut bytes = tar.get_ref().clone();
    bytes.extend(root_file_system());
    import(docker, tag, bytes, instructions).await
}

async fn make(docker: &Docker) -> String {
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let tag = format!("{:016x}", hasher.finish());
    let name = format!("compute-agent-it:{tag}");
    if docker.inspect_image(&name).await.is_ok() {
        return name;
    }
    import(docker, tag, root_file_system(), &[]).await
}

async fn import(docker: &Docker, tag: String, tar: Vec<u8>, instructions: &[&str]) -> String {
    let name = format!("compute-agent-it:{tag}");
    let instructions = instructions.iter().copied();
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some("compute-agent-it".to_owned()),
        tag: Some(tag),
        changes: instructions.chain(["ENTRYPOINT [\"/task\"]"]).map(str::to_owned).collect(),
        ..Default::default()
    };
    let tar = bollard::body_full(tar.into());
    let mut progress = std::pin::pin!(docker.create_image(Some(options), Some(tar), None));
    while let Some(step) = progress.next().await {
        step.expect("import the image");
    }
    name
}

/// The program alone; compiled once.
pub(crate) fn root_file_system() -> Vec<u8> {
    static MADE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    MADE.get_or_init(compiled).clone()
}

fn compiled() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let (source, program) = (dir.path().join("task.rs"), dir.path().join("task"));
    std::fs::write(&source, SOURCE).expect("write the source");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let status = Command::new(rustc)
        .args(["--edition=2024", "-O", "-C", "target-feature=+crt-static", "-o"])
        .args([&program, &source])
        .status()
        .expect("run rustc");
    assert!(status.success(), "rustc: {status}");
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_path_with_name(&program, "task").expect("add the program");
    tar.into_inner().expect("a tar")
}
