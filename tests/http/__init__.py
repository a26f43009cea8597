"""The portal as HTTP sees it: a process, driven and answered over raw sockets, byte for byte.

`wire` is a client's side, `engine` a scripted engine's, `house` the portal process between them. Nothing here imports
the portal: what passes must pass whatever it is built of.
"""
