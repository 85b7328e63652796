//! What a task may do as root in its container.
//!
//! The node's settings say which capabilities these are. They are effective for root alone, and
//! nothing adds to them: a task runs with `no-new-privileges`, so neither a setuid file nor file
//! capabilities give it any.

use api_types::protocol::Work;
use api_types::source::SourceType;

/// Whether a task has the node's capabilities.
///
/// One with a directory of the node has none, even if it only reads there: DAC_OVERRIDE would show
/// it every private file, and CHOWN and FOWNER could leave setuid files of any user.
pub(crate) fn has_some(work: &Work) -> bool {
    let mut sources = work.task.input_sources.iter().map(|input| input.source.source_type);
    !work.no_capabilities && sources.all(|source| source != SourceType::LocalDirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plain_work;
    use api_types::source::{InputSource, SourceSpec};

    #[test]
    fn a_directory_of_the_node_and_the_namespace_take_them() {
        let with = |source_type| {
            let mut work = plain_work();
            let source = SourceSpec { source_type, params: Default::default() };
            let input = InputSource { source, alias: String::new(), target: "/in".to_owned() };
            work.task.input_sources = vec![input];
            work
        };
        assert!(has_some(&plain_work()) && has_some(&with(SourceType::S3)));
        assert!(!has_some(&with(SourceType::LocalDirectory)));
        let mut work = plain_work();
        work.no_capabilities = true;
        assert!(!has_some(&work));
    }
}
