//! Which archives stay, and for how long.

use super::*;
use crate::testing::execution_id;

#[test]
fn an_archive_is_kept_for_its_time_and_no_other_file_is_named() {
    let root = tempfile::tempdir().unwrap();
    let published = PublishedDir::new(root.path().join("published"), 1000);
    assert_eq!(published.older_than(Duration::ZERO).unwrap(), []);
    std::fs::create_dir(root.path().join("published")).unwrap();
    let id = execution_id(1);
    let path = published.named(&format!("{id}.tar.gz")).unwrap();
    std::fs::write(&path, "archive").unwrap();
    assert_eq!(published.older_than(Duration::from_secs(60)).unwrap(), []);
    let hour_ago = SystemTime::UNIX_EPOCH + steady_since_epoch() - Duration::from_secs(3600);
    std::fs::File::open(&path).unwrap().set_modified(hour_ago).unwrap();
    assert_eq!(published.older_than(Duration::from_secs(60)).unwrap(), [id]);
    published.remove(&[id]).unwrap();
    assert!(!path.exists());
    for name in ["../ledger.sqlite", "x.tar.gz", "", "e-1.tar.gz", &id.to_string()] {
        assert_eq!(published.named(name), None, "{name}");
    }
}

/// A directory of archives by the numbers of their executions, which are their ages.
struct Shelf {
    root: tempfile::TempDir,
    published: PublishedDir,
}

impl Shelf {
    fn new(max_bytes: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let published = PublishedDir::new(root.path().join("published"), max_bytes);
        Self { root, published }
    }

    fn take_in(&self, number: u128, owner: &str, bytes: usize) -> Result<(), AttemptError> {
        self.take_in_while(number, owner, bytes, &[])
    }

    /// While others need these.
    fn take_in_while(
        &self,
        number: u128,
        owner: &str,
        bytes: usize,
        needed: &[u128],
    ) -> Result<(), AttemptError> {
        let archive = self.root.path().join("archive.tar.gz");
        std::fs::write(&archive, vec![b'x'; bytes]).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(number.try_into().unwrap());
        File::open(&archive).unwrap().set_modified(at).unwrap();
        let (id, archive) = (execution_id(number), (archive.as_path(), bytes as u64));
        let mut known = Needed::default();
        for question in 0.. {
            assert!(question < 3, "what is asked about is known afterwards");
            match self.published.take_in(id, owner, archive, &known)? {
                Taken::Kept => break,
                Taken::Ask(ids) => {
                    let is_needed = |id: &&ExecutionId| {
                        needed.iter().any(|number| execution_id(*number) == **id)
                    };
                    let answer = ids.iter().filter(is_needed).copied().collect();
                    known.learn(ids, answer);
                }
            }
        }
        Ok(())
    }

    fn kept(&self) -> Vec<u128> {
        let is_there = |number: &u128| self.published.archive_path(execution_id(*number)).exists();
        (1..=9).filter(is_there).collect()
    }
}

#[test]
fn archives_beyond_the_limit_are_removed_oldest_first() {
    let shelf = Shelf::new(25);
    for number in [1, 2, 3] {
        shelf.take_in(number, "a", 10).unwrap();
    }
    assert_eq!(shelf.kept(), [2, 3]);
    shelf.take_in(4, "a", 25).unwrap();
    assert_eq!(shelf.kept(), [4]);
    let Err(AttemptError::Permanent(refused)) = shelf.take_in(1, "a", 26) else {
        panic!("it is too large")
    };
    assert!(refused.message.starts_with("the archive has 26 B, and this node keeps 25 B"));
    assert_eq!(shelf.kept(), [4]);
}

#[test]
fn what_other_jobs_need_goes_last_and_only_for_another_namespace() {
    let shelf = Shelf::new(30);
    for number in [1, 2, 3] {
        shelf.take_in(number, "a", 10).unwrap();
    }
    shelf.take_in_while(4, "a", 10, &[1, 2]).unwrap();
    assert_eq!(shelf.kept(), [1, 2, 4]);
    let Err(AttemptError::Permanent(refused)) = shelf.take_in_while(5, "a", 10, &[1, 2, 4]) else {
        panic!("all that could go is needed")
    };
    assert!(refused.message.contains("which other jobs of its namespace need"), "{refused:?}");
    assert_eq!(shelf.kept(), [1, 2, 4]);
    // No namespace keeps others from publishing.
    shelf.take_in_while(5, "b", 10, &[1, 2, 4]).unwrap();
    assert_eq!(shelf.kept(), [2, 4, 5]);
}

#[test]
fn results_of_one_namespace_do_not_remove_the_archives_of_another() {
    let shelf = Shelf::new(40);
    shelf.take_in(1, "good", 10).unwrap();
    for number in 2..=5 {
        shelf.take_in(number, "hostile", 15).unwrap();
    }
    assert_eq!(shelf.kept(), [1, 4, 5]);
    // Nor does one that is as large as all of them.
    let Err(AttemptError::Permanent(refused)) = shelf.take_in(6, "hostile", 40) else {
        panic!("it is more than its share")
    };
    assert!(refused.message.contains("more than its namespace's share"), "{}", refused.message);
    assert_eq!(shelf.kept(), [1, 4, 5]);
    // An agent that starts anew knows the namespaces as well.
    let again = PublishedDir::new(shelf.published.root.clone(), 40);
    let shelf = Shelf { published: again, ..shelf };
    shelf.take_in(6, "good", 10).unwrap();
    assert_eq!(shelf.kept(), [1, 5, 6]);
    let names = std::fs::read_dir(shelf.root.path().join("published")).unwrap();
    assert_eq!(names.count(), 6, "each archive and its namespace");
}

#[test]
fn an_archive_of_an_earlier_release_has_no_namespace_and_counts_with_the_others_of_them() {
    let shelf = Shelf::new(30);
    for number in [1, 2] {
        shelf.take_in(number, "?", 10).unwrap();
        std::fs::remove_file(owner_file(&shelf.published.archive_path(execution_id(number))))
            .unwrap();
    }
    let again = PublishedDir::new(shelf.published.root.clone(), 30);
    let shelf = Shelf { published: again, ..shelf };
    shelf.take_in(3, "good", 10).unwrap();
    assert_eq!(shelf.kept(), [1, 2, 3]);
    shelf.take_in(4, "good", 10).unwrap();
    assert_eq!(shelf.kept().len(), 3);
    assert!(shelf.kept().contains(&4));
}
