//! What a sealed state is good for: one principal, one request.

use policy::Target;
use vocabulary::{Digest, Era, PrincipalKey};

use crate::context::RequestContext;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding(Digest);

impl Binding {
    pub(crate) fn of(context: &RequestContext, action: &str, target: &Target, args: Digest) -> Self {
        if context.client.era() == Era::Legacy {
            // A client with a session carries no state.
            return Self(args);
        }
        let route = context.route.resource_path();
        let name = match target {
            Target::Tool(entry) => entry.id.name.as_str(),
            Target::Resource { uri, .. } => uri,
            Target::Prompt { name, .. } => name,
            Target::Server(_) => "",
        };
        let parts: [&[u8]; 5] = [
            route.as_bytes(),
            action.as_bytes(),
            target.server().as_str().as_bytes(),
            name.as_bytes(),
            args.as_bytes(),
        ];
        Self(PrincipalKey::of(&context.who).of_its_own(b"state", &parts))
    }

    pub(crate) fn digest(&self) -> &Digest {
        &self.0
    }
}
