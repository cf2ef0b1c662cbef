"""What the survey on optimally compressed nonparametric online learning says of networks, measured."""
