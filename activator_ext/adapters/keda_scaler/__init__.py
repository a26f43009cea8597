"""KEDA's external push scaler: floors told to KEDA, so that it scales a Deployment to them.

`answers` says what a floor is in KEDA's terms, `floors` what is known, `service` answers the calls, `wire` has the
messages, `tls` the credentials; `sources` reads floors where no controller is in the same process.
"""
