//! How much is too much: requests in a time by whom they come from and what they are about, and calls at once.
//! ADR 0073: counts are exact, bounded, and outlive a run where they are quotas.

mod books;
mod count;
mod keep;
mod key;
mod rule;
mod seats;
mod table;
mod usage;
mod window;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use vocabulary::{Clock, ReasonCode, ServerId, ToolId, lock};

pub use count::Group;
pub use keep::{Due, KeptCount, QuotaStore};
pub use key::{Class, Key, Per, PerSet, Request};
pub use rule::{Kind, LimitRules, Methods, Rule, ToolLimits};
pub use usage::Usage;
pub use window::Window;

use books::{Books, Shared};
use keep::UntilWritten;
use key::Keys;
use rule::Spec;
use seats::{Seat, Seats};
use table::Room;
use window::millis;

/// A request was over a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverLimit {
    /// Which kind of limit.
    pub code: ReasonCode,
    /// When to try again, where that can be said.
    pub retry_after: Option<Duration>,
}

impl OverLimit {
    /// When to try again, in milliseconds and never at once.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        let wait = self.retry_after?;
        Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1))
    }

    fn full() -> Self {
        Self {
            code: ReasonCode::DenyConcurrency,
            retry_after: None,
        }
    }
}

/// Counts requests. Cloning gives another handle on the same counts.
#[derive(Clone)]
pub struct CallLimits {
    rules: Arc<InForce>,
    shared: Arc<Shared>,
    running: Running,
}

impl fmt::Debug for CallLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLimits").finish_non_exhaustive()
    }
}

/// A call that is running; dropping it makes room for the next.
#[derive(Debug)]
#[must_use = "the call counts as running only while this is held"]
pub struct InFlight {
    _principal: Seat<Key>,
    _server: Seat<ServerId>,
    _tool: Option<Seat<ToolId>>,
}

/// Calls at once.
#[derive(Clone, Default)]
struct Running {
    principals: Arc<Seats<Key>>,
    servers: Arc<Seats<ServerId>>,
    tools: Arc<Seats<ToolId>>,
}

/// The rules, each with the place of its counts.
struct InForce {
    rules: Vec<Placed>,
    of_tools: HashMap<ToolId, OfTool>,
    per_principal: usize,
    per_server: usize,
}

struct OfTool {
    rules: Vec<Placed>,
    concurrency: Option<usize>,
    timeout: Option<Duration>,
}

struct Placed {
    spec: Spec,
    calls: u32,
    place: usize,
}

/// Why a request is not counted.
enum NotCounted {
    Over(OverLimit),
    /// What lets it pass is not on disk yet; so often was something written.
    Unkept(u64),
}

impl CallLimits {
    /// Starts counting from nothing.
    #[must_use]
    pub fn new(rules: &LimitRules, clock: Clock) -> Self {
        let shared = Arc::new(Shared {
            books: Mutex::default(),
            bell: Condvar::new(),
            clock,
        });
        let in_force = InForce::place(rules, &mut lock(&shared.books));
        Self {
            rules: Arc::new(in_force),
            shared,
            running: Running::default(),
        }
    }

    /// Other rules over the same counts: those of a rule that stays go on, whatever it allows now.
    #[must_use]
    pub fn with_rules(&self, rules: &LimitRules) -> Self {
        let mut books = lock(&self.shared.books);
        let in_force = InForce::place(rules, &mut books);
        let of_tools = in_force.of_tools.values().flat_map(|of_tool| &of_tool.rules);
        let places: Vec<usize> = in_force.rules.iter().chain(of_tools).map(|rule| rule.place).collect();
        books.keep_only(&places);
        Self {
            rules: Arc::new(in_force),
            ..self.clone()
        }
    }

    /// Counts a request in that goes to `server`. Completes at once but for the first call of a quota, and the first of each
    /// hundredth of it.
    ///
    /// # Errors
    /// When a limit is reached; a request that is refused takes nothing from any limit.
    pub async fn admit(&self, request: &Request<'_>, server: &ServerId) -> Result<InFlight, OverLimit> {
        let mut keys = Keys::new(request);
        loop {
            let seats = self.take_seats(&mut keys, request, server)?;
            match self.count(&mut keys, request) {
                Ok(()) => return Ok(seats),
                Err(NotCounted::Over(over)) => return Err(over),
                Err(NotCounted::Unkept(round)) => {
                    drop(seats);
                    self.written(round).await?;
                }
            }
        }
    }

    /// Counts a request in that the gateway answers by itself, or from the lists of servers.
    ///
    /// # Errors
    /// When a limit is reached.
    pub async fn admit_own(&self, request: &Request<'_>) -> Result<(), OverLimit> {
        let mut keys = Keys::new(request);
        loop {
            match self.count(&mut keys, request) {
                Ok(()) => return Ok(()),
                Err(NotCounted::Over(over)) => return Err(over),
                Err(NotCounted::Unkept(round)) => self.written(round).await?,
            }
        }
    }

    /// How long a call of a tool may take, where that is said of it.
    #[must_use]
    pub fn timeout_of(&self, tool: &ToolId) -> Option<Duration> {
        self.rules.of_tools.get(tool)?.timeout
    }

    /// Whether requests of this class are counted by session.
    #[must_use]
    pub fn counts_sessions(&self, class: Class) -> bool {
        let mut rules = self.rules.rules.iter().map(|rule| &rule.spec);
        rules.any(|spec| spec.methods.include(class) && spec.per.iter().any(|per| per == Per::Session))
    }

    /// Seats first: they are given back if a rule refuses.
    fn take_seats(&self, keys: &mut Keys<'_>, request: &Request<'_>, server: &ServerId) -> Result<InFlight, OverLimit> {
        let Running {
            principals,
            servers,
            tools,
        } = &self.running;
        let of_tool = request
            .tool
            .and_then(|tool| Some((tool, self.rules.of_tools.get(tool)?)));
        let at_once = of_tool.and_then(|(tool, of_tool)| Some((tool, of_tool.concurrency?)));
        let principal =
            Seats::take(principals, keys.principal(), self.rules.per_principal).ok_or_else(OverLimit::full)?;
        let server = Seats::take(servers, server.clone(), self.rules.per_server).ok_or_else(OverLimit::full)?;
        let tool = match at_once {
            Some((tool, limit)) => Some(Seats::take(tools, tool.clone(), limit).ok_or_else(OverLimit::full)?),
            None => None,
        };
        Ok(InFlight {
            _principal: principal,
            _server: server,
            _tool: tool,
        })
    }

    /// Counts by every rule, or by none.
    fn count(&self, keys: &mut Keys<'_>, request: &Request<'_>) -> Result<(), NotCounted> {
        let of_tool = request.tool.and_then(|tool| self.rules.of_tools.get(tool));
        let rules = self
            .rules
            .rules
            .iter()
            .chain(of_tool.into_iter().flat_map(|of_tool| &of_tool.rules));
        let concerned = rules.filter(|rule| rule.spec.methods.include(request.class));
        let concerned: Vec<(&Placed, Key)> = concerned
            .filter_map(|rule| Some((rule, keys.get(&rule.spec.per)?)))
            .collect();
        let now = millis(self.shared.clock.now());
        let mut books = lock(&self.shared.books);
        let unkept = books.look(&concerned, now)?;
        if !unkept.is_empty() {
            for (rule, key) in unkept {
                books.want(rule, key, now, keys);
            }
            self.shared.bell.notify_one();
            return Err(NotCounted::Unkept(books.round));
        }
        if books.add(&concerned, now, keys) {
            self.shared.bell.notify_one();
        }
        Ok(())
    }

    async fn written(&self, round: u64) -> Result<(), OverLimit> {
        let until = UntilWritten {
            shared: &self.shared,
            round,
        };
        until.await.map_err(|()| OverLimit {
            code: ReasonCode::DenyReceiptUnavailable,
            retry_after: Some(AFTER_A_FAILURE),
        })
    }
}

impl Books {
    /// The rules of which what they allow is not on disk; refused where one allows no more. Of several, the one that takes
    /// longest to allow it again is told.
    fn look<'r>(
        &mut self,
        rules: &[(&'r Placed, Key)],
        now: window::Millis,
    ) -> Result<Vec<(&'r Placed, Key)>, NotCounted> {
        let (mut over, mut unkept) = (None::<OverLimit>, Vec::new());
        for (rule, key) in rules {
            let Some(Some(table)) = self.tables.get_mut(rule.place) else {
                continue;
            };
            match table.look(*key, now, rule.calls, self.is_kept) {
                Room::Free => {}
                Room::Unkept => unkept.push((*rule, *key)),
                Room::Full(wait) if over.is_some_and(|over| over.retry_after >= Some(wait)) => {}
                Room::Full(wait) => {
                    over = Some(OverLimit {
                        code: rule.spec.kind.code(),
                        retry_after: Some(wait),
                    });
                }
            }
        }
        over.map_or(Ok(unkept), |over| Err(NotCounted::Over(over)))
    }

    /// Counts; whether something is to be written.
    fn add(&mut self, rules: &[(&Placed, Key)], now: window::Millis, keys: &Keys<'_>) -> bool {
        let mut is_due = false;
        for (rule, key) in rules {
            if let Some(Some(table)) = self.tables.get_mut(rule.place)
                && let Some(key) = table.add(*key, now, self.is_kept, || keys.names(&rule.spec.per))
            {
                self.due.push((rule.place, key));
                is_due = true;
            }
        }
        is_due
    }

    fn want(&mut self, rule: &Placed, key: Key, now: window::Millis, keys: &Keys<'_>) {
        if let Some(Some(table)) = self.tables.get_mut(rule.place)
            && let Some(key) = table.want(key, now, || keys.names(&rule.spec.per))
        {
            self.due.push((rule.place, key));
        }
    }
}

impl InForce {
    fn place(rules: &LimitRules, books: &mut Books) -> Self {
        let own = own_allowance(rules);
        let general = of_kind(Kind::Rate, &rules.rate)
            .chain(own.iter().map(|rule| (Kind::Rate, rule)))
            .chain(of_kind(Kind::Quota, &rules.quota));
        let mut of_tools = HashMap::new();
        for (tool, limits) in &rules.tools {
            let of_tool = of_kind(Kind::Rate, &limits.rate).chain(of_kind(Kind::Quota, &limits.quota));
            let placed = OfTool {
                rules: of_tool.map(|rule| Placed::new(rule, Some(tool), books)).collect(),
                concurrency: limits.concurrency,
                timeout: limits.timeout,
            };
            of_tools.insert(tool.clone(), placed);
        }
        Self {
            rules: general.map(|rule| Placed::new(rule, None, books)).collect(),
            of_tools,
            per_principal: rules.per_principal,
            per_server: rules.per_server,
        }
    }
}

impl Placed {
    fn new((kind, rule): (Kind, &Rule), only: Option<&ToolId>, books: &mut Books) -> Self {
        let per = match only {
            Some(_) => rule.per.and(Per::Tool),
            None => rule.per.clone(),
        };
        let spec = Spec {
            kind,
            per,
            window: rule.window,
            methods: rule.methods,
            only: only.cloned(),
        };
        let calls = rule.calls.get();
        Self {
            place: books.place_of(spec.clone(), calls),
            spec,
            calls,
        }
    }
}

fn of_kind(kind: Kind, rules: &[Rule]) -> impl Iterator<Item = (Kind, &Rule)> {
    rules.iter().map(move |rule| (kind, rule))
}

/// What asks what there is has an allowance where the operator gives none: each such request leaves a record.
fn own_allowance(rules: &LimitRules) -> Option<Rule> {
    let is_said = rules.rate.iter().any(|rule| rule.methods.include(Class::List));
    (!is_said).then(|| Rule {
        per: Per::Principal.into(),
        calls: OWN_A_MINUTE,
        window: Window::Rolling(Duration::from_secs(60)),
        methods: Methods::Lists,
    })
}

const OWN_A_MINUTE: NonZeroU32 = match NonZeroU32::new(1_200) {
    Some(number) => number,
    None => NonZeroU32::MIN,
};
/// Whoever could not be counted for want of a disk may try again after this.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
