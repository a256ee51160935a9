//! The nouns every room speaks: who calls, what is called, how risky it is, why something was
//! refused, and the digests, secrets and times that go with it. No I/O, no async: whatever is in
//! here can be used by a pure crate.

pub mod canonical;
mod clock;
mod confinement;
mod digest;
mod face;
mod host;
mod host_list;
mod id;
pub mod json;
mod lock;
mod masks;
pub mod note;
mod principal;
mod reason;
mod risk;
mod role;
mod sealing;
mod secret;
mod spelling;
mod tool;
mod words;

pub use clock::{Clock, Timestamp};
pub use confinement::Confinement;
pub use digest::{Digest, Hasher};
pub use face::{Audience, Capability, CapabilitySet, Era, Face};
pub use host::{Host, read_port};
pub use host_list::{HostList, HostPattern, HostPatternFault, HostStanding};
pub use id::{ReceiptId, TraceId, random_hex};
pub use lock::lock;
pub use masks::Masks;
pub use principal::{ActorType, Authn, ClaimValue, Principal, PrincipalKey, ServerScope};
pub use reason::{ReasonCode, Remedy};
pub use risk::{Classified, Hints, Risk, RiskFound, RiskSource, Trust};
pub use role::Role;
pub use sealing::{SealingKey, SealingKeyBytes};
pub use secret::Secret;
pub use spelling::nearest;
pub use tool::{NameFault, ServerId, Shadowing, ToolId, ToolName};
