//! What a sealed state is good for: one principal, one request.

use policy::Target;
use vocabulary::{Digest, Era};

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
        let who = &context.who;
        let route = context.route.resource_path();
        let name = match target {
            Target::Tool(entry) => entry.id.name.as_str(),
            Target::Resource { uri, .. } => uri,
            Target::Prompt { name, .. } => name,
            Target::Server(_) => "",
        };
        let parts: [&[u8]; 9] = [
            who.issuer.as_bytes(),
            who.sub.as_bytes(),
            who.client_id.as_deref().unwrap_or_default().as_bytes(),
            who.actor_type.as_str().as_bytes(),
            route.as_bytes(),
            action.as_bytes(),
            target.server().as_str().as_bytes(),
            name.as_bytes(),
            args.as_bytes(),
        ];
        let lengths = parts.map(|part| (part.len() as u64).to_be_bytes());
        let framed = lengths
            .iter()
            .zip(parts)
            .flat_map(|(length, part)| [length.as_slice(), part]);
        Self(Digest::of_pieces(framed))
    }

    pub(crate) fn digest(&self) -> &Digest {
        &self.0
    }
}
