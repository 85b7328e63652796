//! The task image, on which every other test depends.

use task_image::{docker, image};

#[tokio::test]
async fn the_image_is_built_once_and_leaves_nothing_else_behind() {
    let engine = match docker::connect().await {
        Ok(engine) => engine,
        Err(missing) if std::env::var_os("CI").is_some() => panic!("{missing}"),
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let (first, second) = tokio::join!(image::ensure(&engine), image::ensure(&engine));
    let name = first.unwrap();
    assert_eq!(second.unwrap(), name);
    let inspected = engine.inspect_image(&name).await.unwrap();
    assert_eq!(inspected.repo_tags, Some(vec![name]));
    let config = inspected.config.unwrap();
    assert_eq!(config.entrypoint, Some(vec![image::PROGRAM_PATH.to_owned()]));
    let size = inspected.size.unwrap();
    assert!(size > 0 && size < 10_000_000, "{size} bytes is not small");
}
