//! Control groups, version 2, where one was handed down to the gateway: limits on an instance as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ResourceLimits;

/// A control group below which the gateway may make others.
#[derive(Debug)]
pub(crate) struct Delegated {
    directory: PathBuf,
}

impl Delegated {
    /// The gateway's own group, if memory and processes can be limited below it.
    pub(crate) fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        Self::in_directory(directory(&own, &mounts)?)
    }

    /// Makes ready for groups below `directory`. A group with processes cannot hand controllers on, so the gateway
    /// moves into one of its own first; a group that others share is left alone.
    fn in_directory(directory: PathBuf) -> Option<Self> {
        let has = |file: &str| {
            let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
            let mut words = text.split_ascii_whitespace();
            words.clone().any(|word| word == "memory") && words.any(|word| word == "pids")
        };
        if !has("cgroup.controllers") {
            return None;
        }
        if !has("cgroup.subtree_control") {
            let own = std::process::id().to_string();
            let members = fs::read_to_string(directory.join("cgroup.procs")).ok()?;
            if members.split_ascii_whitespace().any(|member| member != own) {
                return None;
            }
            let leaf = directory.join("portreeve-gateway");
            make_directory(&leaf).ok()?;
            fs::write(leaf.join("cgroup.procs"), own).ok()?;
            fs::write(directory.join("cgroup.subtree_control"), "+memory +pids").ok()?;
        }
        has("cgroup.subtree_control").then_some(Self { directory })
    }

    /// A group for one instance, with its limits in force.
    pub(crate) fn group(&self, instance: &str, limits: &ResourceLimits) -> io::Result<Group> {
        let directory = self.directory.join(format!("portreeve-{instance}"));
        make_directory(&directory)?;
        // From here on, dropping the group takes the directory away.
        let group = Group {
            directory,
            cpu_seconds: limits.cpu_seconds,
        };
        group.set("memory.max", &limits.memory.to_string())?;
        group.set("memory.oom.group", "1")?;
        // The launcher's two processes count too.
        group.set("pids.max", &(u64::from(limits.processes) + 2).to_string())?;
        match group.set("memory.swap.max", "0") {
            // A kernel that knows no swap has no file to limit it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        Ok(group)
    }
}

/// The control group of one instance.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    cpu_seconds: Option<u64>,
}

impl Group {
    /// Puts a process in; what it starts follows.
    pub(crate) fn enter(&self, process: u32) -> io::Result<()> {
        self.set("cgroup.procs", &process.to_string())
    }

    /// Kills everything inside.
    pub(crate) fn kill(&self) {
        // Before Linux 5.14 there is no such file; the first process was killed all the same.
        let _ = self.set("cgroup.kill", "1");
    }

    /// Whether the instance has used up its processor time; never if that is not limited.
    pub(crate) fn is_out_of_time(&self) -> bool {
        let used = || fs::read_to_string(self.directory.join("cpu.stat")).map_or(0, |stat| used_seconds(&stat));
        self.cpu_seconds.is_some_and(|allowed| used() >= allowed)
    }

    /// Whether the kernel killed everything inside for want of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.directory.join("memory.events")).unwrap_or_default();
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.is_some_and(|count| count.trim() != "0")
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.directory.join(file), value)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let directory = std::mem::take(&mut self.directory);
        // The killed need a moment to be gone, and the group cannot be removed before.
        let remove = move || {
            for _ in 0..50 {
                if fs::remove_dir(&directory).is_ok() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            tracing::warn!(group = %directory.display(), "a control group could not be removed");
        };
        let _ = std::thread::Builder::new()
            .name("sandbox-group".to_owned())
            .spawn(remove);
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Where our group of the unified hierarchy is, by `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn directory(own: &str, mounts: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let inside = Path::new("/").join(group);
    let inside = inside.strip_prefix(root).ok()?;
    Some(Path::new(point).join(inside))
}

fn used_seconds(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
    line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like a control group; the kernel's part is played by the test.
    fn pretend(name: &str, controllers: &str, members: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("group-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("cgroup.controllers"), controllers).unwrap();
        fs::write(path.join("cgroup.subtree_control"), "").unwrap();
        fs::write(path.join("cgroup.procs"), members).unwrap();
        path
    }

    #[test]
    fn the_group_is_found_below_the_mount() {
        let mounts = "30 20 0:5 / /proc rw - proc proc rw\n42 30 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n";
        let own = "1:cpu:/\n0::/system.slice/portreeve.service\n";
        assert_eq!(
            directory(own, mounts),
            Some(PathBuf::from("/sys/fs/cgroup/system.slice/portreeve.service"))
        );
        let inside = "42 30 0:27 /system.slice /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(
            directory(own, inside),
            Some(PathBuf::from("/sys/fs/cgroup/portreeve.service"))
        );
        assert_eq!(directory("1:cpu:/\n", mounts), None);
        assert_eq!(directory(own, "30 20 0:5 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn a_group_without_controllers_or_with_others_in_it_is_left_alone() {
        let own = std::process::id().to_string();
        let bare = pretend("bare", "hugetlb", &own);
        assert!(Delegated::in_directory(bare.clone()).is_none());
        let shared = pretend("shared", "cpu memory pids", &format!("{own}\n1\n"));
        assert!(Delegated::in_directory(shared.clone()).is_none());
        assert!(!shared.join("portreeve-gateway").exists());
        for path in [bare, shared] {
            fs::remove_dir_all(path).unwrap();
        }
    }

    #[test]
    fn an_instance_gets_its_limits_before_anyone_is_in() {
        let path = pretend("own", "cpu memory pids", &std::process::id().to_string());
        // The kernel would answer our request in the same file, without the plus signs.
        fs::write(path.join("cgroup.subtree_control"), "memory pids").unwrap();
        let delegated = Delegated::in_directory(path.clone()).unwrap();
        let limits = ResourceLimits {
            memory: 4096,
            processes: 5,
            ..ResourceLimits::default()
        };
        let group = delegated.group("abc", &limits).unwrap();
        let read = |file: &str| fs::read_to_string(path.join("portreeve-abc").join(file)).unwrap();
        let set = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"].map(read);
        assert_eq!(set, ["4096", "0", "1", "7"]);
        assert!(!group.is_out_of_memory());
        for (events, is_out) in [
            ("oom 0\noom_kill 0\n", false),
            ("oom 1\noom_kill 3\noom_group_kill 1\n", true),
        ] {
            fs::write(path.join("portreeve-abc/memory.events"), events).unwrap();
            assert_eq!(group.is_out_of_memory(), is_out, "{events}");
        }
        std::mem::forget(group);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn processor_time_is_read_in_seconds() {
        assert_eq!(used_seconds("usage_usec 7900000\nuser_usec 1\n"), 7);
        assert_eq!(used_seconds("nonsense"), 0);
    }
}
