"""Published files over the network: mirrors, checksums, and downloads that may be broken off."""
