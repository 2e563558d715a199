shared = True
