//! How a run goes on: a table that is drawn anew on a terminal, one line a step elsewhere, nothing beside JSON.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use harness::{Progress, Step};
use vocabulary::lock;

use super::words::Form;
use crate::config::variable;

/// Shows steps on standard error.
pub(super) struct Show {
    way: Way,
    rows: Mutex<Table>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Silent,
    Lines,
    Table,
}

struct Table {
    rows: Vec<Row>,
    drawn: usize,
    closed: bool,
}

struct Row {
    agent: String,
    state: String,
    attempt: String,
    began: Option<Instant>,
    took: Option<Duration>,
}

impl Show {
    /// Shows steps of these agents.
    pub(super) fn new<'a>(form: Form, agents: impl IntoIterator<Item = &'a str>) -> Arc<Self> {
        let terminal = std::io::stderr().is_terminal() && variable("TERM").is_none_or(|term| term != "dumb");
        let way = match (form, terminal) {
            (Form::Json, _) => Way::Silent,
            (Form::Words, true) => Way::Table,
            (Form::Words, false) => Way::Lines,
        };
        let row = |agent: &str| Row {
            agent: agent.to_owned(),
            state: "waiting".to_owned(),
            attempt: String::new(),
            began: None,
            took: None,
        };
        let show = Arc::new(Self {
            way,
            rows: Mutex::new(Table {
                rows: agents.into_iter().map(row).collect(),
                drawn: 0,
                closed: false,
            }),
        });
        if way == Way::Table {
            show.keep_time();
        }
        show
    }

    /// Draws for the last time.
    pub(super) fn close(&self) {
        let mut table = self.table();
        if self.way == Way::Table && !table.closed {
            table.draw();
        }
        table.closed = true;
    }

    /// Redraws every second, so that times go on.
    fn keep_time(self: &Arc<Self>) {
        let show = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let Some(show) = show.upgrade() else { return };
                let mut table = show.table();
                if table.closed {
                    return;
                }
                table.draw();
            }
        });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.rows)
    }
}

impl Progress for Show {
    fn tell(&self, step: Step) {
        match self.way {
            Way::Silent => {}
            Way::Lines => say(&line(&step)),
            Way::Table => {
                let mut table = self.table();
                table.take(&step);
                table.draw();
            }
        }
    }
}

impl Table {
    fn take(&mut self, step: &Step) {
        let (agent, state, attempt) = match step {
            Step::Started { agent } => (agent, "started".to_owned(), None),
            Step::Attempt { agent, number, most } => (agent, "running".to_owned(), Some(format!("{number}/{most}"))),
            Step::Judged { agent, class, .. } => (agent, class.as_str().to_owned(), None),
            Step::Ended {
                agent, status, reason, ..
            } => (agent, format!("{} ({})", status.as_str(), reason.as_str()), None),
        };
        let Some(row) = self.rows.iter_mut().find(|row| row.agent == *agent) else {
            return;
        };
        row.state = state;
        row.attempt = attempt.unwrap_or(std::mem::take(&mut row.attempt));
        match step {
            Step::Started { .. } => row.began = Some(Instant::now()),
            Step::Ended { took, .. } => row.took = Some(*took),
            Step::Attempt { .. } | Step::Judged { .. } => {}
        }
    }

    /// Goes back up over what was drawn and draws it anew.
    fn draw(&mut self) {
        let width = self.rows.iter().map(|row| row.agent.len()).max().unwrap_or_default();
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        for row in &self.rows {
            let took = row.took.or(row.began.map(|began| began.elapsed())).unwrap_or_default();
            text.push_str(&format!(
                "\x1b[2K{:width$}  {:>5}  {:>7.1}s  {}\n",
                row.agent,
                row.attempt,
                took.as_secs_f64(),
                row.state
            ));
        }
        self.drawn = self.rows.len();
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn line(step: &Step) -> String {
    match step {
        Step::Started { agent } => format!("{agent}: started"),
        Step::Attempt { agent, number, most } => format!("{agent}: attempt {number} of {most}"),
        Step::Judged {
            agent,
            number,
            class,
            took,
        } => format!(
            "{agent}: attempt {number}: {} after {:.1} s",
            class.as_str(),
            took.as_secs_f64()
        ),
        Step::Ended {
            agent,
            status,
            reason,
            took,
        } => format!(
            "{agent}: {} ({}) after {:.1} s",
            status.as_str(),
            reason.as_str(),
            took.as_secs_f64()
        ),
    }
}
