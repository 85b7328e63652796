//! Which entries the cache keeps, reuses and evicts.

use std::cell::Cell;

use super::handle::CacheHandle;
use super::*;
use crate::data::inputs::placement::Quota;
use crate::data::retry::AttemptError;
use crate::host::disk::LimitedBy;
use crate::testing::any_disk;

struct Fixture {
    dir: tempfile::TempDir,
    cache: Cache,
    fetched: Cell<u32>,
}

impl Fixture {
    fn new(max_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().join("cache"), max_bytes);
        Self { dir, cache, fetched: Cell::new(0) }
    }

    /// Fills a fresh directory with a tree whose one file has this text.
    async fn fill(&self, key: &str, text: &str) -> PathBuf {
        self.fill_for("default", key, text).await
    }

    async fn fill_for(&self, namespace: &str, key: &str, text: &str) -> PathBuf {
        let directory = self.dir.path().join(format!("in-{key}"));
        remove_all(&directory).unwrap();
        let quota = Quota::new(1000, LimitedBy::Node, any_disk());
        let fetch = || async {
            self.fetched.set(self.fetched.get() + 1);
            fs::create_dir_all(directory.join("sub"))?;
            fs::write(directory.join("sub/file"), text)?;
            std::os::unix::fs::symlink("sub/file", directory.join("link"))?;
            Ok(())
        };
        let handle = CacheHandle::Own { cache: &self.cache, namespace };
        handle.fill(key, &directory, &quota, fetch).await.unwrap();
        assert_eq!(fs::read_to_string(directory.join("link")).unwrap(), text);
        directory
    }

    fn handle(&self) -> CacheHandle<'_> {
        CacheHandle::Own { cache: &self.cache, namespace: "default" }
    }

    fn entries(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.dir.path().join("cache"))
            .map(|entries| {
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
            })
            .unwrap_or_default();
        names.sort();
        names
    }
}

/// The names of entries, in order.
fn entries(keys: [&str; 2]) -> Vec<String> {
    let mut names: Vec<_> = keys.iter().map(|key| Cache::name("default", key)).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_second_fetch_links_the_cached_entry() {
    let fixture = Fixture::new(1000);
    fixture.fill("a", "text").await;
    // The first input may be gone: the entry has the file for itself.
    let again = fixture.fill("a", "text").await;
    assert_eq!(fixture.fetched.get(), 1);
    let links =
        std::os::unix::fs::MetadataExt::nlink(&fs::metadata(again.join("sub/file")).unwrap());
    assert_eq!(links, 2);
    fixture.fill("b", "text").await;
    assert_eq!(fixture.fetched.get(), 2);
}

#[tokio::test]
async fn the_least_recently_used_entry_is_evicted_first() {
    // A link counts with the length of its path: 8.
    let fixture = Fixture::new(2 * (8 + 10));
    fixture.fill("a", "0123456789").await;
    fixture.fill("b", "0123456789").await;
    fixture.fill("a", "0123456789").await;
    let running = fixture.fill("c", "0123456789").await;
    assert_eq!(fixture.entries(), entries(["a", "c"]));
    fixture.fill("b", "0123456789").await;
    assert_eq!(fixture.entries(), entries(["b", "c"]));
    assert_eq!(fs::read_to_string(running.join("sub/file")).unwrap(), "0123456789");
}

#[tokio::test]
async fn inputs_of_one_namespace_do_not_evict_those_of_another() {
    let fixture = Fixture::new(3 * (8 + 10));
    fixture.fill("a", "0123456789").await;
    for key in ["b", "c", "d", "e"] {
        fixture.fill_for("hostile", key, "0123456789").await;
    }
    assert_eq!(fixture.fetched.get(), 5);
    fixture.fill("a", "0123456789").await;
    assert_eq!(fixture.fetched.get(), 5, "it is still there");
    assert!(!fixture.entries().contains(&Cache::name("hostile", "b")));
}

#[tokio::test]
async fn an_entry_larger_than_the_cache_is_not_kept() {
    let fixture = Fixture::new(5);
    fixture.fill("a", "0123456789").await;
    assert!(fixture.entries().is_empty());
    let none = Fixture::new(0);
    none.fill("a", "").await;
    assert!(none.entries().is_empty());
}

#[tokio::test]
async fn a_cached_entry_counts_towards_the_input_limit_of_its_task() {
    let fixture = Fixture::new(1000);
    fixture.fill("a", "0123456789").await;
    let quota = Quota::new(9, LimitedBy::Task, any_disk());
    let directory = fixture.dir.path().join("other");
    let refused =
        fixture.handle().fill("a", &directory, &quota, || async { Ok(()) }).await.unwrap_err();
    assert_eq!(refused, AttemptError::Permanent(quota.too_large()));
}

#[tokio::test]
async fn a_second_caller_waits_for_the_first() {
    let fixture = Fixture::new(1000);
    let (one, other) = (fixture.dir.path().join("one"), fixture.dir.path().join("other"));
    let quota = Quota::new(1000, LimitedBy::Node, any_disk());
    let fill = |directory: PathBuf| {
        let (fixture, quota) = (&fixture, &quota);
        async move {
            let fetch = || async {
                fixture.fetched.set(fixture.fetched.get() + 1);
                tokio::task::yield_now().await;
                fs::create_dir(&directory)?;
                Ok(fs::write(directory.join("file"), "text")?)
            };
            fixture.handle().fill("a", &directory, quota, fetch).await
        }
    };
    let (first, second) = tokio::join!(fill(one.clone()), fill(other.clone()));
    first.and(second).unwrap();
    assert_eq!(fixture.fetched.get(), 1);
    assert_eq!(fs::read(one.join("file")).unwrap(), fs::read(other.join("file")).unwrap());
}

#[test]
fn different_lists_of_parts_have_different_keys() {
    assert_ne!(Cache::key(&["ab", "c"]), Cache::key(&["a", "bc"]));
    assert_eq!(Cache::key(&["ab", "c"]), Cache::key(&["ab", "c"]));
}

#[tokio::test]
async fn another_namespace_fetches_for_itself() {
    let fixture = Fixture::new(1000);
    fixture.fill("a", "text").await;
    let other = CacheHandle::Own { cache: &fixture.cache, namespace: "other" };
    let directory = fixture.dir.path().join("in-other");
    let found = other.find("a", &directory).await.unwrap();
    assert!(matches!(found, super::handle::CacheLookup::Missing(_)) && !directory.exists());
}

#[tokio::test]
async fn entries_of_another_boot_are_not_used_and_go() {
    let mut fixture = Fixture::new(1000);
    let root = fixture.dir.path().join("cache");
    let boot = |id| Cache::new(boots::of_this_boot(&root, id), 1000);
    for (id, fetched) in [("one", 1), ("one", 1), ("two", 2), ("one", 3), ("", 4), ("", 5)] {
        fixture.cache = boot(id);
        fixture.fill("a", "text").await;
        assert_eq!(fixture.fetched.get(), fetched, "'{id}'");
        assert_eq!(fixture.entries().len(), 1, "'{id}'");
    }
}

#[test]
fn an_entry_that_a_killed_agent_was_adding_or_removing_goes() {
    let dir = tempfile::tempdir().unwrap();
    let own = boots::of_this_boot(dir.path(), "one");
    for name in ["ab", "cd.new", "ef.3.evicted"] {
        fs::create_dir(own.join(name)).unwrap();
    }
    assert_eq!(boots::of_this_boot(dir.path(), "one"), own);
    let left: Vec<_> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [own.join("ab")]);
}

/// An entry takes long to link, and is evicted again and again while it does.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_evicted_while_it_is_used_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    fs::create_dir(&root).unwrap();
    let cache = Cache::new(root.clone(), 1_000_000);
    let handle = CacheHandle::Own { cache: &cache, namespace: "default" };
    let quota = Quota::new(u64::MAX, LimitedBy::Node, any_disk());
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let evicting = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Ordering::Relaxed) {
                shrink(&root, 0)?;
            }
            io::Result::Ok(())
        }
    });
    for number in 0..100 {
        let directory = dir.path().join(format!("in-{number}"));
        let fetch = || async {
            for file in 0..50 {
                fs::create_dir_all(directory.join(format!("{file}")))?;
                fs::write(directory.join(format!("{file}/file")), "text")?;
            }
            Ok(())
        };
        handle.fill("a", &directory, &quota, fetch).await.unwrap();
        for file in 0..50 {
            let text = fs::read_to_string(directory.join(format!("{file}/file"))).unwrap();
            assert_eq!(text, "text");
        }
    }
    done.store(true, Ordering::Relaxed);
    evicting.join().unwrap().unwrap();
}
