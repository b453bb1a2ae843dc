//! The declarations of the types of policies: refuses a policy before the seal that could not check.

use plugin_sdk::{AssetType, Sources};

use super::compiled::{CheckPolicy, Readers, Refused};

/// Declares a type of policies that name these sources.
///
/// ```
/// use annealing_checks::policies;
/// use plugin_sdk::Sources;
/// use prodspec_model::policy::FreezePolicy;
///
/// let freezes = policies::declared::<FreezePolicy>(&Sources::default());
/// # let _ = freezes;
/// ```
pub fn declared<P: CheckPolicy>(sources: &Sources) -> AssetType<P> {
    let readers = Readers::of(sources);
    AssetType::new()
        .modelled_only()
        .valid(move |policy: &P, view, problems| {
            for Refused { field, why } in wrong(policy, &readers) {
                problems.push(view.problem(why).field(format!("payload.{field}")));
            }
        })
}

/// The wrong fields of a policy.
pub(super) fn wrong<P: CheckPolicy>(policy: &P, readers: &Readers) -> Vec<Refused> {
    let mut wrong = policy.check("policy", readers).err().unwrap_or_default();
    for (at, exception) in policy.except().iter().enumerate() {
        if let Err((field, why)) = exception.check() {
            wrong.push(Refused::new(format!("except[{at}].{field}"), why));
        }
    }
    wrong
}
