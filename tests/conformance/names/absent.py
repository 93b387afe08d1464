ABSENT: dict[str, str] = {}
