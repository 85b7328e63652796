//! Answers for who types what they are used to from `docker`.

/// Commands of `docker`, and what does the same here.
const COMMANDS: [(&str, &str); 10] = [
    ("ps", "'jobctl list' shows jobs, 'jobctl top' what their executions use"),
    (
        "exec",
        "nothing can be run inside a task; 'jobctl logs -f JOB' shows its output, and \
         'jobctl describe JOB[0]' what it uses",
    ),
    ("attach", "'jobctl logs -f JOB' follows the output of a job"),
    ("rm", "'jobctl stop JOB' stops a job; ended jobs are removed by the service in time"),
    ("kill", "'jobctl stop JOB' stops a job"),
    ("inspect", "'jobctl describe JOB -o json' shows all of a job"),
    ("stats", "'jobctl top' shows what executions use"),
    ("pull", "nodes pull the images of jobs themselves: 'jobctl run IMAGE'"),
    ("images", "nodes keep the images of jobs themselves"),
    (
        "cp",
        "'jobctl get JOB' downloads results; 'jobctl run -i @PATH' sends a file or directory along",
    ),
];

/// Arguments of `docker run`, and what does the same here.
const ARGUMENTS: [(&[&str], &str); 4] = [
    (
        &["-it", "-ti", "-t", "--tty", "--interactive"],
        "tasks have neither a terminal nor standard input: leave it out; a terminal shows the output \
         while the task runs",
    ),
    (
        &["--rm"],
        "leave it out: the node removes the container when its task has ended, and keeps the output",
    ),
    (
        &["-v", "--volume", "--mount"],
        "-i SOURCE:/PATH gives the task an input (-i file:///DIRECTORY is one of the node), and \
         --result NAME:/PATH keeps what it writes",
    ),
    (
        &["--privileged", "--cap-add", "--user", "-u", "--restart", "--publish"],
        "the service decides that; 'jobctl run --help' lists what a task can ask for",
    ),
];

/// The answer for a command line that was refused.
pub(crate) fn answer<'a>(line: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut words = line.into_iter();
    let command = words.by_ref().find(|word| !word.starts_with('-'))?;
    if command == "run" {
        let options = words.take_while(|word| *word != "--");
        return options.filter_map(of_argument).next();
    }
    let (_, answer) = COMMANDS.iter().find(|(name, _)| *name == command)?;
    Some((*answer).to_owned())
}

/// The answer for an argument of `run`.
pub(crate) fn of_argument(argument: &str) -> Option<String> {
    let name = argument.split('=').next().unwrap_or(argument);
    let (_, answer) = ARGUMENTS.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("{name}: {answer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_get_an_answer() {
        for (line, text) in [
            (&["ps", "-a"][..], "jobctl list"),
            (&["exec", "-it", "x", "sh"], "jobctl logs -f"),
            (&["run", "--rm", "busybox"], "--rm: leave it out"),
            (&["run", "-v", "/data:/data", "busybox"], "-i SOURCE:/PATH"),
            (&["run", "--volume=/data:/data", "busybox"], "--volume: -i SOURCE"),
        ] {
            let found = answer(line.iter().copied()).unwrap();
            assert!(found.contains(text), "{line:?}: {found}");
        }
        // What is behind `--` is the task's.
        assert_eq!(answer(["run", "busybox", "--", "ls", "-t"]), None);
        assert_eq!(answer(["lst"]), None);
    }
}
