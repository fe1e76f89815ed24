"""A shell on a terminal, to which lines are typed as by a person: the next one when the prompt is there."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

# Every shell below has it from the environment, in an allocation and in a container too: exit code of the last command.
# What still runs in the background may write behind it.
PROMPT = {"PROMPT_COMMAND": r'PS1="@@$?@@ "', "PS2": ""}
AT_PROMPT = re.compile(r"@@(\d+)@@ ")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Silence(Exception):
    """What was waited for has not come."""


class Terminal:
    def __init__(self, command, patience):
        self.patience = patience
        self.seen = ""
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.closerange(3, 256)
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(ignored, signal.SIG_DFL)
            os.execvp(command[0], command)
        # Nothing that is typed is wrapped.
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 1000, 0, 0))
        self.wait(AT_PROMPT)

    def read(self, deadline, pattern):
        while not select.select([self.end], [], [], 1)[0]:
            self.wake()
            if time.monotonic() > deadline:
                raise Silence(f"no {pattern.pattern} within {self.patience} s after:\n{self.clean(self.seen)}")
        try:
            data = os.read(self.end, 65536)
        except OSError:
            data = b""
        if not data:
            raise Silence(f"the terminal has ended after:\n{self.clean(self.seen)}")
        self.seen += data.decode(errors="replace")

    def wake(self):
        """salloc (22.05) gives the terminal to its shell while that begins, and a shell that is sooner stops by SIGTTIN
        for ever. Who is in the foreground has no reason to be stopped."""
        group = os.tcgetpgrp(self.end)
        if group > 0 and re.search(r"^State:\tT \(stopped", self.status(group), re.MULTILINE):
            os.killpg(group, signal.SIGCONT)

    @staticmethod
    def status(process):
        try:
            with open(f"/proc/{process}/status") as file:
                return file.read()
        except OSError:
            return ""

    def wait(self, pattern):
        deadline = time.monotonic() + self.patience
        while not (found := pattern.search(self.seen)):
            self.read(deadline, pattern)
        return found

    @staticmethod
    def clean(text):
        """What stands on the terminal: of a line that was written over, its last form."""
        lines = ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
        return "\n".join(re.sub(r".*\r(?=.)", "", line).rstrip("\r") for line in lines)

    def type(self, text, answers=()):
        """Types a command, and what it asks for: pairs of what must be seen and what is typed then. Returns the exit
        code and the output."""
        self.seen = said = ""
        os.write(self.end, text.encode() + b"\n")
        for asked, answer in answers:
            end = self.wait(re.compile(asked, re.MULTILINE)).end()
            said, self.seen = said + self.seen[:end], self.seen[end:]
            os.write(self.end, answer.encode())
        code = int(self.wait(AT_PROMPT)[1])
        output = said + AT_PROMPT.sub("", self.seen)
        return code, self.without_echo(self.clean(output), text)

    @staticmethod
    def without_echo(output, text):
        for line in text.split("\n"):
            output = re.sub(r"^" + re.escape(line) + r"$\n?", "", output, count=1, flags=re.MULTILINE)
        return output.strip("\n")

    def close(self):
        """What the shells have left running ends with their jobs."""
        os.kill(self.child, signal.SIGKILL)
        os.close(self.end)
        os.waitpid(self.child, 0)
