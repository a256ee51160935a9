//! What cannot be done with a [`crate::KnownTool`], a [`crate::KnownTarget`] and a [`crate::Permit`], as tests that must not
//! compile, each beside its twin that does.

/// A tool that was not resolved cannot be put together:
///
/// ```compile_fail,E0451
/// fn forge(known: portreeve_policy::KnownTool) -> portreeve_policy::KnownTool {
///     portreeve_policy::KnownTool { place: 7, ..known }
/// }
/// ```
///
/// while one that was can be looked at:
///
/// ```
/// fn look(known: portreeve_policy::KnownTool) -> std::sync::Arc<portreeve_policy::ToolEntry> {
///     known.entry().clone()
/// }
/// ```
#[cfg(doctest)]
struct ForgeKnownTool;

/// A target that was not resolved cannot be put together, nor one method's be made another's:
///
/// ```compile_fail,E0451
/// fn forge(known: portreeve_policy::KnownTarget) -> portreeve_policy::KnownTarget {
///     portreeve_policy::KnownTarget { action: "resources/read".into(), ..known }
/// }
/// ```
///
/// while one that was can be looked at:
///
/// ```
/// fn look(known: portreeve_policy::KnownTarget) -> (String, portreeve_policy::Target) {
///     (known.action().to_owned(), known.target().clone())
/// }
/// ```
#[cfg(doctest)]
struct ForgeKnownTarget;

/// A permit cannot be put together:
///
/// ```compile_fail,E0451
/// fn forge(permit: portreeve_policy::Permit) -> portreeve_policy::Permit {
///     portreeve_policy::Permit { epoch: 7, ..permit }
/// }
/// ```
///
/// nor asked of its maker from outside:
///
/// ```compile_fail,E0624
/// use portreeve_policy::Permit;
/// fn forge(permit: &Permit) -> Permit {
///     let (who, target) = (permit.principal().clone(), permit.target().clone());
///     Permit::grant(who, "tools/call".into(), target, vocabulary::Digest::of(b""), 7)
/// }
/// ```
///
/// while one that was granted says for whom and what:
///
/// ```
/// use portreeve_policy::Permit;
/// fn look(permit: &Permit) -> (String, String, portreeve_policy::Target) {
///     (permit.principal().sub.clone(), permit.action().to_owned(), permit.target().clone())
/// }
/// ```
#[cfg(doctest)]
struct ForgePermit;

/// A permit cannot be spent twice:
///
/// ```compile_fail,E0382
/// use portreeve_policy::Permit;
/// fn twice(permit: Permit, arguments: vocabulary::Digest) {
///     let first = permit.spend(arguments, 1);
///     let second = permit.spend(arguments, 1);
/// }
/// ```
///
/// while once is what it is for:
///
/// ```
/// use portreeve_policy::{Permit, PermitFault, SpentPermit};
/// fn once(permit: Permit, arguments: vocabulary::Digest) -> Result<SpentPermit, PermitFault> {
///     permit.spend(arguments, 1)
/// }
/// ```
#[cfg(doctest)]
struct SpendTwice;

/// A spent permit cannot be turned to another method:
///
/// ```compile_fail,E0451
/// use portreeve_policy::SpentPermit;
/// fn turn(spent: SpentPermit) -> SpentPermit {
///     SpentPermit { action: "tools/call".into(), ..spent }
/// }
/// ```
///
/// while what it was spent on can be sent:
///
/// ```
/// use portreeve_policy::{SpentPermit, Target};
/// fn send(spent: &SpentPermit) -> (&str, &Target) {
///     (spent.action(), spent.target())
/// }
/// ```
#[cfg(doctest)]
struct TurnPermit;

/// A permit cannot be copied:
///
/// ```compile_fail,E0599
/// fn copy(permit: portreeve_policy::Permit) -> (portreeve_policy::Permit, portreeve_policy::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
///
/// while it can be handed on:
///
/// ```
/// fn hand_on(permit: portreeve_policy::Permit) -> portreeve_policy::Permit {
///     permit
/// }
/// ```
#[cfg(doctest)]
struct CopyPermit;
