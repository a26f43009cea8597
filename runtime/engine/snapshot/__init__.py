"""Engines that are restored from an image of a ready one, by CRIU: no import, no load, no compile is paid again."""
