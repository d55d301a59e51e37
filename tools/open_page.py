"""Say where the book lies, and open it where there is a screen to open it on."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path


def has_screen() -> bool:
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY"))


def main() -> None:
    page = Path(__file__).resolve().parent.parent / "_build/html/index.html"
    print(f"\nThe book: {page.as_uri()}")
    if has_screen():
        try:
            webbrowser.open(page.as_uri())
        except (webbrowser.Error, OSError):
            print(
                "No browser could be started; open the address above yourself."
            )


if __name__ == "__main__":
    main()
