//! Every method but the tool call's own door: what a request is about, whether its caller may know
//! of that, and whether the request is allowed. The rules, the engine and the permit are those of calls.

use std::cell::OnceCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use cedar_policy::{Context, Entities, EntityUid};
use vocabulary::{ReasonCode, Risk, ServerId};

pub(crate) mod methods;
pub(crate) mod reach;

use crate::approval::Wanted;
use crate::caller::Caller;
use crate::context::CallFacts;
use crate::decide::{Decision, Grounds, Open, RuleOutcome, Scene, Verdict};
use crate::entities::{Likeness, kind_type, offered_entity, offered_uid, server_uid};
use crate::inventory::entry::{Standing, ToolEntry};
use crate::inventory::snapshot::{NotKnown, PolicySnapshot, Provenance, builtin};
use crate::inventory::word::ItemKind;
use crate::permit::Permit;
use crate::rules::{Condition, ResourceUse, Rule};
use crate::visible::{Foresight, View};
use methods::{TargetKind, applies};
use reach::{Alike, Ground, Outlook, RulesInScope};

/// What a request is about, beside its method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A tool: `tools/call`, and `tasks/*` of a call of it.
    Tool(Arc<ToolEntry>),
    /// A resource, or a template by its own spelling: `resources/*`, `completion/complete`.
    Resource {
        /// Whose it is.
        server: ServerId,
        /// Its URI, as its server spells it.
        uri: Arc<str>,
    },
    /// A prompt: `prompts/get`, `completion/complete`.
    Prompt {
        /// Whose it is.
        server: ServerId,
        /// Its name, as its server spells it.
        name: Arc<str>,
    },
    /// A server as a whole: what it asks of a client, `logging/setLevel`, extension methods.
    Server(ServerId),
}

impl Target {
    /// The server it is of, or is.
    #[must_use]
    pub fn server(&self) -> &ServerId {
        match self {
            Self::Tool(entry) => &entry.id.server,
            Self::Resource { server, .. } | Self::Prompt { server, .. } | Self::Server(server) => server,
        }
    }

    /// The tool, if it is one.
    #[must_use]
    pub fn entry(&self) -> Option<&Arc<ToolEntry>> {
        match self {
            Self::Tool(entry) => Some(entry),
            Self::Resource { .. } | Self::Prompt { .. } | Self::Server(_) => None,
        }
    }

    /// How dangerous it is to ask for it, whatever it is told: only tools do something.
    #[must_use]
    pub fn risk(&self) -> Risk {
        match self {
            Self::Tool(entry) => entry.risk,
            Self::Resource { .. } | Self::Prompt { .. } | Self::Server(_) => Risk::Low,
        }
    }

    /// Whether a method can be about such a target.
    pub(crate) fn suits(&self, action: &str) -> bool {
        applies(action, self.kind())
    }

    fn kind(&self) -> TargetKind {
        match self {
            Self::Tool(_) => TargetKind::Tool,
            Self::Resource { .. } => TargetKind::Resource,
            Self::Prompt { .. } => TargetKind::Prompt,
            Self::Server(_) => TargetKind::Server,
        }
    }

    fn uid(&self) -> EntityUid {
        match self {
            Self::Tool(entry) => offered_uid(TargetKind::Tool, &entry.id.server, entry.id.name.as_str()),
            Self::Resource { server, uri } => offered_uid(TargetKind::Resource, server, uri),
            Self::Prompt { server, name } => offered_uid(TargetKind::Prompt, server, name),
            Self::Server(server) => server_uid(server),
        }
    }
}

/// A target on a configured server, and a method, that this caller may know of.
///
/// Only [`PolicySnapshot::resolve_target`] makes one.
pub struct KnownTarget {
    action: Arc<str>,
    target: Target,
    case: Case,
    outlook: Arc<Outlook>,
    provenance: Provenance,
}

impl fmt::Debug for KnownTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownTarget")
            .field("action", &self.action)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl KnownTarget {
    /// The method.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// The target.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl PolicySnapshot {
    /// Whether some request of a method on a target could be allowed or approved for this caller.
    #[must_use]
    pub fn could(&self, caller: &Caller, action: &str, target: &Target) -> bool {
        let caller = self.adopt(caller);
        self.enter(&caller, action, target)
            .is_ok_and(|(_, _, outlook)| outlook.view(self.rules()) == View::Visible)
    }

    /// The same of something that nobody need offer, as far as the rules go.
    fn could_by_rules(&self, caller: &Caller, action: &str, target: &Target) -> bool {
        let caller = self.adopt(caller);
        caller.principal().servers.covers(target.server())
            && self
                .enter_rules(&caller, action, target.clone())
                .is_ok_and(|(_, _, outlook)| outlook.view(self.rules()) == View::Visible)
    }

    /// Whether the caller could get some prompt of a server: any, or one that a rule names.
    #[must_use]
    pub fn could_get_some_prompt(&self, caller: &Caller, server: &ServerId) -> bool {
        let prompt = |name: &str| Target::Prompt {
            server: server.clone(),
            name: name.into(),
        };
        let mut names = self.names_in_rules(TargetKind::Prompt, server);
        names.any(|name| self.could(caller, "prompts/get", &prompt(name)))
            || self.inventory().has_usable(server, &[ItemKind::Prompt])
                && self.could_by_rules(caller, "prompts/get", &prompt("some-prompt"))
    }

    /// Whether the caller could read some resource of a server: any, or one that a rule names.
    #[must_use]
    pub fn could_read_something(&self, caller: &Caller, server: &ServerId) -> bool {
        let resource = |uri: &str| Target::Resource {
            server: server.clone(),
            uri: uri.into(),
        };
        let mut uris = self.names_in_rules(TargetKind::Resource, server);
        uris.any(|uri| self.could(caller, "resources/read", &resource(uri)))
            || self
                .inventory()
                .has_usable(server, &[ItemKind::Resource, ItemKind::Template])
                && self.could_by_rules(caller, "resources/read", &resource("some:resource"))
    }

    /// What rules call things of one kind on a server.
    fn names_in_rules<'s>(&'s self, kind: TargetKind, server: &'s ServerId) -> impl Iterator<Item = &'s str> {
        let rules = (0..).map_while(|index| self.rules().rule(index));
        let named = rules.flat_map(|rule| &rule.named);
        let of_kind = named.filter(move |uid| uid.type_name() == kind_type(kind));
        of_kind.filter_map(move |uid| {
            let id: &str = uid.id().as_ref();
            id.strip_prefix(server.as_str())?.strip_prefix('/')
        })
    }

    /// Finds a target of a method for a caller.
    ///
    /// # Errors
    /// When its server is not configured or outside the caller's credential, when the method is not
    /// about such targets, when it is a tool that is gone or quarantined, or when policy hides it. The
    /// caller gets the answer for what does not exist; the true reason is for the receipt.
    pub fn resolve_target(&self, caller: &Caller, action: &str, target: &Target) -> Result<KnownTarget, NotKnown> {
        let caller = self.adopt(caller);
        let (target, case, outlook) = self.enter(&caller, action, target)?;
        match outlook.view(self.rules()) {
            View::Visible => Ok(KnownTarget {
                action: action.into(),
                target,
                case,
                outlook,
                provenance: self.provenance(&caller),
            }),
            View::Hidden(Grounds { policy_id, code, .. }) => Err(NotKnown {
                code,
                policy_id,
                entry: target.entry().cloned(),
            }),
        }
    }

    /// Decides one request. `call.arguments` is what policies see as `context.args`: the `arguments` of
    /// `prompts/get` and of a call, the params of any other method.
    #[must_use]
    pub fn decide_target(&self, caller: &Caller, known: KnownTarget, call: &CallFacts<'_>) -> Decision {
        // A target that was resolved elsewhere or for somebody else proves nothing here.
        let caller = match self.own(caller, &known.provenance) {
            Ok(caller) => caller,
            Err(grounds) => return Decision::Deny(grounds),
        };
        let KnownTarget {
            action,
            target,
            case,
            outlook,
            ..
        } = known;
        let open = Open {
            settled: outlook.settled,
            rules: &outlook.open,
            reads: &outlook.reads,
            risk: target.risk(),
        };
        let findings = self.judge_open(&caller, &open, call, |context| {
            self.scene_of(&caller, &case, &target, context)
        });
        let (verdict, grounds) = findings.verdict_on(self.rules(), call);
        match verdict {
            Verdict::Allow => {
                let who = caller.principal().clone();
                let permit = Permit::grant(who, action, target, call.args_hash, self.epoch());
                Decision::Allow(permit, grounds)
            }
            Verdict::RequireApproval => {
                let wanted = self.wanted(&caller, action, target, call);
                Decision::RequireApproval(Wanted::new(wanted, &grounds), grounds)
            }
            Verdict::Deny => Decision::Deny(grounds),
        }
    }

    /// All that has to hold before any rule is asked, then what the rules foresee.
    fn enter(&self, caller: &Caller, action: &str, target: &Target) -> Result<(Target, Case, Arc<Outlook>), NotKnown> {
        let target = self.locate(target)?;
        if !caller.principal().servers.covers(target.server()) {
            return Err(builtin(ReasonCode::DenyNoPermission, target.entry()));
        }
        match target.entry().map(|entry| &entry.standing) {
            Some(Standing::Quarantined(_)) => return Err(builtin(ReasonCode::DenyToolQuarantined, target.entry())),
            Some(Standing::Disabled) => return Err(builtin(ReasonCode::DenyToolDisabled, target.entry())),
            Some(Standing::Approved) | None => {}
        }
        self.heed_pins(&target)?;
        self.enter_rules(caller, action, target)
    }

    /// What a server says of its prompts, resources and templates is pinned as its tools are: what waits is not there.
    fn heed_pins(&self, target: &Target) -> Result<(), NotKnown> {
        let inventory = self.inventory();
        let (kind, server, name, standing) = match target {
            Target::Tool(_) | Target::Server(_) => return Ok(()),
            Target::Prompt { server, name } => {
                let kind = ItemKind::Prompt;
                (kind, server, name, inventory.standing_of(server, kind, name))
            }
            Target::Resource { server, uri } => {
                let listed = inventory.standing_of(server, ItemKind::Resource, uri);
                // A completion names a template by its own spelling.
                let spelled = || inventory.standing_of(server, ItemKind::Template, uri);
                let fitting = || inventory.standing_by_template(server, uri);
                (
                    ItemKind::Resource,
                    server,
                    uri,
                    listed.or_else(spelled).or_else(fitting),
                )
            }
        };
        match standing {
            Some(Standing::Approved) => Ok(()),
            Some(Standing::Quarantined(_)) => Err(builtin(ReasonCode::DenyToolQuarantined, None)),
            Some(Standing::Disabled) => Err(builtin(ReasonCode::DenyToolDisabled, None)),
            None if inventory.may_be_asked_unlisted(server, kind, name) => Ok(()),
            None => Err(builtin(ReasonCode::DenyToolNotFound, None)),
        }
    }

    fn enter_rules(
        &self,
        caller: &Caller,
        action: &str,
        target: Target,
    ) -> Result<(Target, Case, Arc<Outlook>), NotKnown> {
        if !target.suits(action) {
            return Err(builtin(ReasonCode::DenyNoMatchingRule, target.entry()));
        }
        let case = self.case(caller, action, &target);
        let outlook = self.outlook(caller, &case, &target);
        Ok((target, case, outlook))
    }

    /// The target as this snapshot has it: a tool is the one in the inventory.
    pub(crate) fn locate(&self, target: &Target) -> Result<Target, NotKnown> {
        let unknown = || builtin(ReasonCode::DenyToolNotFound, None);
        self.inventory().server(target.server()).ok_or_else(unknown)?;
        match target {
            Target::Tool(entry) => {
                let known = self.inventory().tool(&entry.id.server, entry.id.name.as_str());
                let same = known
                    .iter()
                    .find(|known| known.definition_hash == entry.definition_hash);
                same.or(known.first()).cloned().map(Target::Tool).ok_or_else(unknown)
            }
            Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_) => Ok(target.clone()),
        }
    }

    pub(crate) fn case(&self, caller: &Caller, action: &str, target: &Target) -> Case {
        let kind = target.kind();
        let reach = caller
            .reaches
            .find_or_add(caller.principal(), self.rules(), action, kind);
        let alike = Alike {
            server: target.server().clone(),
            tool: target.entry().map(|entry| Likeness::of(entry)),
        };
        let ground = reach.ground(&alike, || self.work_out_ground(caller, &reach, target));
        let mut case = Case::new(target, reach, ground);
        // What asks for a server asks for all that is alike on it.
        let named = (kind != TargetKind::Server).then(|| case.reach.slices.naming(&case.uid));
        let own = named.unwrap_or_default().iter().chain(&case.ground.singular);
        case.own = own.copied().collect();
        case
    }

    fn work_out_ground(&self, caller: &Caller, reach: &Arc<RulesInScope>, target: &Target) -> Ground {
        let common = reach.slices.fitting([&server_uid(target.server())]);
        let tells_apart = |index: &usize| {
            let rule = self.rules().rule(*index);
            target.kind() != TargetKind::Server && rule.is_some_and(|rule| rule.resource_use == ResourceUse::Identity)
        };
        let (singular, shared): (Vec<usize>, Vec<usize>) = common.iter().copied().partition(tells_apart);
        let common = Ground {
            outlook: Arc::default(),
            named: self.named_by(&common).into(),
            common: common.into(),
            singular: singular.into(),
        };
        let case = Case::new(target, reach.clone(), Arc::new(common));
        let mut outlook = Outlook::default();
        let any_call = || self.scene_of(caller, &case, target, caller.any_call.clone()?);
        self.foresee_all(&shared, any_call, &mut outlook);
        Ground {
            outlook: Arc::new(outlook),
            common: case.ground.common.clone(),
            singular: case.ground.singular.clone(),
            named: case.ground.named.clone(),
        }
    }

    fn outlook(&self, caller: &Caller, case: &Case, target: &Target) -> Arc<Outlook> {
        let mut outlook = case.ground.outlook.clone();
        if !case.own.is_empty() {
            let any_call = || self.scene_of(caller, case, target, caller.any_call.clone()?);
            self.foresee_all(&case.own, any_call, Arc::make_mut(&mut outlook));
        }
        outlook
    }

    /// Puts rules in scope to a request that nobody has made yet.
    fn foresee_all(&self, rules: &[usize], any_call: impl Fn() -> Option<Scene>, outlook: &mut Outlook) {
        // Most rules need no scene, so it is set only where one does, and once.
        let set = OnceCell::new();
        let scene = || set.get_or_init(&any_call).as_ref();
        let failed = Foresight::Certain(RuleOutcome::Failed);
        for (index, rule) in self.numbered(rules) {
            let foresight = match &rule.condition {
                Condition::None => Foresight::Certain(RuleOutcome::Satisfied),
                Condition::ContextFree => scene().map_or(failed, |scene| Foresight::Certain(scene.evaluate(rule))),
                Condition::Contextual(_) => scene().map_or(failed, |scene| scene.foresee(rule)),
            };
            outlook.note(index, rule, foresight);
        }
    }

    pub(crate) fn scene_of(&self, caller: &Caller, case: &Case, target: &Target, context: Context) -> Option<Scene> {
        let cast = || self.cast_of(caller, case, target).map(Arc::new);
        let entities = case.entities.get_or_init(cast).clone()?;
        Scene::of_action(caller, case.reach.action.clone(), case.uid.clone(), context, entities)
    }

    /// The caller, the target, its server, and whatever else the rules in scope name.
    fn cast_of(&self, caller: &Caller, case: &Case, target: &Target) -> Option<Entities> {
        let server = self.cast().entity(&case.server)?;
        let subject = match target {
            Target::Tool(_) => Some(self.cast().entity(&case.uid)?.clone()),
            Target::Resource { server, .. } | Target::Prompt { server, .. } => {
                Some(offered_entity(&case.uid, self.inventory().server(server)?)?)
            }
            Target::Server(_) => None,
        };
        let mut named = self.named_by(&case.own);
        named.extend_from_slice(&case.ground.named);
        named.sort();
        named.dedup();
        named.retain(|uid| *uid != case.uid && *uid != case.server);
        let named = named.iter().filter_map(|uid| self.cast().entity(uid));
        let known = [server, caller.entity.as_ref()?].into_iter().chain(named).cloned();
        Entities::from_entities(known.chain(subject), None).ok()
    }

    /// What these rules name of what we have entities for.
    fn named_by(&self, rules: &[usize]) -> Vec<EntityUid> {
        let uids = self.numbered(rules).flat_map(|(_, rule)| &rule.named);
        let mut uids: Vec<EntityUid> = uids.filter(|uid| self.cast().entity(uid).is_some()).cloned().collect();
        uids.sort();
        uids.dedup();
        uids
    }

    fn numbered<'s>(&'s self, rules: &'s [usize]) -> impl Iterator<Item = (usize, &'s Rule)> {
        rules
            .iter()
            .filter_map(|index| Some((*index, self.rules().rule(*index)?)))
    }
}

/// One caller, one method and one target, and the rules whose scope fits all three.
pub(crate) struct Case {
    uid: EntityUid,
    server: EntityUid,
    reach: Arc<RulesInScope>,
    ground: Arc<Ground>,
    /// The rules to be asked for this very target, beside what holds for all that are alike.
    own: Vec<usize>,
    /// All entities a rule is evaluated against; built by the first that needs them.
    entities: OnceLock<Option<Arc<Entities>>>,
}

impl Case {
    fn new(target: &Target, reach: Arc<RulesInScope>, ground: Arc<Ground>) -> Self {
        Self {
            uid: target.uid(),
            server: server_uid(target.server()),
            reach,
            ground,
            own: Vec::new(),
            entities: OnceLock::new(),
        }
    }

    /// Every rule whose scope fits, in order of id.
    pub(crate) fn slice(&self) -> Vec<usize> {
        let mut slice: Vec<usize> = self.ground.common.iter().chain(&self.own).copied().collect();
        slice.sort_unstable();
        slice.dedup();
        slice
    }
}

#[cfg(test)]
mod tests;
