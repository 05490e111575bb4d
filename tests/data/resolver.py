"""A resolver of a test's own."""

import socket


class Names:
    """A resolver: each look-up of a name takes the next of its answers, the last one again and again."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, list[list[str]]] = {}
        self._real = socket.getaddrinfo

    def __call__(self, host, port, *given, **named):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.answers:
            return self._real(host, port, *given, **named)
        self.asked.append(name)
        answers = self.answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]
