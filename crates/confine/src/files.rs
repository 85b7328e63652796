//! What a confined process may open, by Landlock.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::Confinement;
use crate::error::ConfineError;

/// The newest set of rights that this release knows; an older kernel enforces what it has. The
/// sixth brought signals.
const RIGHTS: ABI = ABI::V6;

/// Whether this kernel has Landlock.
pub fn is_supported() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create)
        .is_ok()
}

pub(crate) fn restrict(confinement: &Confinement) -> Result<(), ConfineError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RIGHTS))?
        .scope(Scope::from_all(RIGHTS))?
        .create()?;
    for path in &confinement.read {
        rules = allow(rules, path, AccessFs::from_read(RIGHTS))?;
    }
    for path in &confinement.write {
        // Nothing that it wrote is run: a hook or a filter of a repository, say.
        rules = allow(rules, path, AccessFs::from_all(RIGHTS) & !AccessFs::Execute)?;
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced if !confinement.allow_unconfined => {
            Err(ConfineError::Unsupported)
        }
        _ => Ok(()),
    }
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfineError> {
    // What is not there needs no right.
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(rules) };
    let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
    Ok(rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?)
}
